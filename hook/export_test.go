package hook

// Confine is what the hook does before it reads an image.
var Confine = confine

// BoundMemory is how the hook limits what it can take.
var BoundMemory = boundMemory

// Again starts this program anew with an empty bounding set.
var Again = again
