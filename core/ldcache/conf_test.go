package ldcache

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

func TestConf(t *testing.T) {
	for _, tc := range []struct {
		name string
		v    files
		want []string
	}{
		{"Debian", files{
			"/etc/ld.so.conf":                         "include /etc/ld.so.conf.d/*.conf\n\n",
			"/etc/ld.so.conf.d/libc.conf":             "# libc default configuration\n/usr/local/lib\n",
			"/etc/ld.so.conf.d/fakeroot.conf":         "/usr/lib/x86_64-linux-gnu/libfakeroot\n",
			"/etc/ld.so.conf.d/x86_64-linux-gnu.conf": "# Multiarch support\n/usr/local/lib/x86_64-linux-gnu\n/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n",
			"/etc/ld.so.conf.d/README":                "/not/read\n",
			"/etc/ld.so.conf.d/.hidden.conf":          "/not/read/either\n",
			"/usr/lib/x86_64-linux-gnu/libc.so.6":     "", "/usr/lib64/x": "", "/lib": "-> usr/lib",
		}, []string{"/usr/lib/x86_64-linux-gnu/libfakeroot", "/usr/local/lib", "/usr/local/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"}},
		{"RHEL", files{"/etc/ld.so.conf": "include ld.so.conf.d/*.conf\n", "/etc/ld.so.conf.d/kernel.conf": "/opt/lib", "/usr/lib64/x": "", "/lib64": "-> usr/lib64", "/usr/lib/x": "", "/lib": "-> usr/lib"},
			[]string{"/opt/lib", "/lib", "/lib64", "/usr/lib", "/usr/lib64"}},
		{"no file at all", files{"/usr/lib/x": ""}, []string{"/lib", "/usr/lib"}},
		{"Debian without its configuration", files{"/lib/x86_64-linux-gnu/libc.so.6": "", "/usr/lib64/x": ""},
			[]string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"}},
		{"RHEL with a driver of Debian's layout", files{"/usr/lib64/libc.so.6": "", "/lib64": "-> usr/lib64", "/usr/lib/x86_64-linux-gnu/libcuda.so.1": "", "/lib": "-> usr/lib"},
			[]string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}},
		{"B41 CRLF, tabs, comments, no final newline", files{"/etc/ld.so.conf": "/a\r\n\t/b/ \t# text\r\n#/c\n  \ninclude\t/etc/x.conf /etc/y.conf\n/d", "/etc/x.conf": "/x", "/etc/y.conf": "/y//"},
			[]string{"/a", "/b", "/x", "/y", "/d", "/lib", "/usr/lib"}},
		{"each once", files{"/etc/ld.so.conf": "/a\n/a/\n/usr/lib\n"}, []string{"/a", "/usr/lib", "/lib"}},
		{"a library type of old", files{"/etc/ld.so.conf": "/a=libc6\n/b =libc5\n"}, []string{"/a", "/b", "/lib", "/usr/lib"}},
		{"a pattern in the middle", files{"/etc/ld.so.conf": "include /etc/*/x[12].conf", "/etc/b/x1.conf": "/b1", "/etc/a/x2.conf": "/a2", "/etc/a/x3.conf": "/a3", "/etc/file": ""},
			[]string{"/a2", "/b1", "/lib", "/usr/lib"}},
		{"brackets as a shell has them", files{"/etc/ld.so.conf": "include /etc/[!b].1 /etc/[[:alpha:]].2 /etc/[]a].3 /etc/[x-].4 /etc/[.5 /etc/[^b[:digit:]].6",
			"/etc/a.1": "/1", "/etc/b.1": "/no", "/etc/a.2": "/2", "/etc/1.2": "/no", "/etc/].3": "/3", "/etc/-.4": "/4", "/etc/[.5": "/5", "/etc/a.6": "/6", "/etc/3.6": "/no"},
			[]string{"/1", "/2", "/3", "/4", "/5", "/6", "/lib", "/usr/lib"}},
		{"a zero byte ends the line", files{"/etc/ld.so.conf": "/a\x00b\n/c"}, []string{"/a", "/c", "/lib", "/usr/lib"}},
		{"a way up, behind a link", files{"/etc/ld.so.conf": "/opt/link/../x/\n", "/opt/link": "-> /srv/y", "/srv/y/f": "", "/srv/x/f": ""}, []string{"/srv/x", "/lib", "/usr/lib"}},
		{"a link to a file elsewhere in the root", files{"/etc/ld.so.conf": "-> ../opt/real.conf", "/opt/real.conf": "/linked\ninclude more.conf", "/etc/more.conf": "/more"},
			[]string{"/linked", "/more", "/lib", "/usr/lib"}},
		{"an include that matches nothing", files{"/etc/ld.so.conf": "include /none/*.conf /none.conf\n/a"}, []string{"/a", "/lib", "/usr/lib"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, skipped := Conf(tc.v)
			if !slices.Equal(got, tc.want) || len(skipped) != 0 {
				t.Errorf("Conf = %q, %v; want %q", got, skipped, tc.want)
			}
		})
	}
}

// nested is a chain of n includes.
func nested(n int) files {
	v := files{"/etc/ld.so.conf": "include /etc/0"}
	for i := range n {
		v[fmt.Sprintf("/etc/%d", i)] = fmt.Sprintf("/folder%d\ninclude /etc/%d\n", i, i+1)
	}
	return v
}

type confCase struct {
	name    string
	v       files
	want    error // of one of the things skipped
	text    string
	folders int // besides the default ones
}

// confCases are the cases of TestB41Tricks, which the fuzz target begins with.
func confCases() []confCase {
	wide := files{"/etc/ld.so.conf": "include /etc/d/*\n"}
	for i := range 400 {
		wide[fmt.Sprintf("/etc/d/%03d", i)] = fmt.Sprintf("/folder%d\n", i)
	}
	return []confCase{
		{"includes itself", files{"/etc/ld.so.conf": "/a\ninclude /etc/ld.so.conf\n/b"}, nil, "includes itself", 2},
		{"two include each other", files{"/etc/ld.so.conf": "include /etc/x", "/etc/x": "/a\ninclude /etc/ld.so.conf"}, nil, "includes itself", 1},
		{"includes itself by another name", files{"/etc/ld.so.conf": "include /link/ld.so.conf", "/link": "-> etc"}, nil, "includes itself", 0},
		{"a FIFO", files{"/etc/ld.so.conf": "include /etc/fifo\n/a", "/etc/fifo": "!"}, nil, "not a regular file", 1},
		{"ld.so.conf is a FIFO", files{"/etc/ld.so.conf": "!"}, nil, "not a regular file", 0},
		{"ld.so.conf is a folder", files{"/etc/ld.so.conf/x": ""}, nil, "not a regular file", 0},
		{"a link to a FIFO", files{"/etc/ld.so.conf": "include /etc/l", "/etc/l": "-> fifo", "/etc/fifo": "!"}, nil, "not a regular file", 0},
		{"an endless device", files{"/etc/ld.so.conf": "include /dev/zero\n/a", "/dev/zero": "!"}, nil, "not a regular file", 1},
		{"CRLF, and no newline at the end", files{"/etc/ld.so.conf": "/a\r\n/b\r\nhwcap 1\r\n/c"}, nil, "hwcap", 3},
		{"a dangling link", files{"/etc/ld.so.conf": "include /etc/l", "/etc/l": "-> nowhere"}, fs.ErrNotExist, "", 0},
		{"9 nested includes", nested(20), ErrLimit, "nested", 8},
		{"400 files", wide, ErrLimit, "files", 255},
		{"a line of 1 MB", files{"/etc/ld.so.conf": "/" + strings.Repeat("x", 1<<20-10) + "\n/a"}, ErrLimit, "line", 1},
		{"a file of over 1 MiB", files{"/etc/ld.so.conf": strings.Repeat("/a\n", 1<<19)}, ErrLimit, "bytes", 0},
		{"300 folders", files{"/etc/ld.so.conf": numbered(300)}, ErrLimit, "folders", 256 - 2},
		{"a hwcap line", files{"/etc/ld.so.conf": "hwcap 0 nosegneg\n/a"}, nil, "hwcap", 1},
		{"a relative folder", files{"/etc/ld.so.conf": "lib\n/a"}, nil, `"lib"`, 1},
		{"a folder with two dots", files{"/etc/ld.so.conf": "/a/../../b\n/a"}, nil, "absolute", 1},
		{"a control character", files{"/etc/ld.so.conf": "/a\x01b\n/a"}, nil, "printable", 1},
		{"an include out of the root", files{"/etc/ld.so.conf": "include ../../../x.conf /y/../../z\n/a"}, nil, "printable", 1},
	}
}

func TestB41Tricks(t *testing.T) {
	for _, tc := range confCases() {
		t.Run(tc.name, func(t *testing.T) {
			got, skipped := Conf(tc.v)
			got = slices.DeleteFunc(got, func(s string) bool { return s == "/lib" || s == "/usr/lib" })
			want := tc.folders
			if tc.name == "300 folders" {
				want += 2 // no room is left for the default ones
			}
			if len(got) != want {
				t.Errorf("%d folders, want %d: %.300q", len(got), want, got)
			}
			if !slices.ContainsFunc(skipped, func(s Skip) bool {
				return (tc.want == nil || errors.Is(s.Err, tc.want)) && strings.Contains(s.String(), tc.text)
			}) {
				t.Errorf("skipped %.300v, want %v with %q", skipped, tc.want, tc.text)
			}
		})
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "/f%d\n", i)
	}
	return b.String()
}

func TestB41PatternsThatMatchTheWholeSystem(t *testing.T) {
	v := files{"/etc/ld.so.conf": "include /*/*/*/*/none*\n/a"}
	for i := range 5000 {
		v[fmt.Sprintf("/d%d/x/y/z/f", i)] = "/b"
	}
	got, skipped := Conf(v)
	if !slices.Contains(got, "/a") || !slices.ContainsFunc(skipped, func(s Skip) bool { return errors.Is(s.Err, ErrLimit) && strings.Contains(s.String(), "compare") }) {
		t.Errorf("Conf = %.100q, %.200v; want /a, and the limit reported", got, skipped)
	}
}

func FuzzConf(f *testing.F) {
	for _, s := range []string{"include /etc/ld.so.conf.d/*.conf\n", "/a\r\n# x\n", "include ld.so.conf x.conf [", "hwcap 1\n/b=libc6", "include /*/*\n", "\x00/\xff",
		"include /*/*/*/*/*", "include /dev/zero\n", "include /proc/1/root/etc/*.conf\n", "/a\r\n/b\r\n", "/no/final/newline"} {
		f.Add(s, s)
	}
	for _, tc := range confCases() {
		if len(tc.v["/etc/ld.so.conf"]) < 1<<16 {
			f.Add(tc.v["/etc/ld.so.conf"], "include /etc/ld.so.conf\n/x")
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.HasPrefix(a, "-> ") || strings.HasPrefix(b, "-> ") || strings.HasPrefix(a, "!") || strings.HasPrefix(b, "!") {
			t.Skip("means something else to the View")
		}
		v := files{"/etc/ld.so.conf": a, "/etc/ld.so.conf.d/x.conf": b, "/usr/lib/x": ""}
		got, skipped := Conf(v)
		if len(got) > MaxFolders || len(skipped) > MaxSkips {
			t.Fatalf("%d folders, %d skipped", len(got), len(skipped))
		}
		for _, dir := range got {
			if !ValidPath(dir) {
				t.Fatalf("folder %q", dir)
			}
		}
	})
}
