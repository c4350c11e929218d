package image

// Outside is a folder that no machine has. Links of the hostile images climb out
// of the root and lead there; inside the root, where a resolver must stay, it has
// what the image needs. A machine that has it afterwards was written to.
const Outside = "/gpurig-outside"

// climb leads from anywhere in a root to its top, and beyond where nobody stops it.
const climb = "../../../../../../../../../../.."

// hostileEtc has /etc as a link out of the root: whoever writes the loader's cache
// by path writes to the host's (A14).
func hostileEtc(b *builder) {
	b.dir(Outside, Outside+"/etc")
	b.link("/etc", climb+Outside+"/etc")
	glibcMerged(b)
}

// hostileLib has the folder of libraries as a link out of the root: whoever makes
// mount points and links by path makes them on the host (A14).
func hostileLib(b *builder) {
	b.dir("/usr", Outside, Outside+"/lib")
	b.link("/usr/lib", climb+Outside+"/lib")
	glibcMerged(b)
}
