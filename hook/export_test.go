package hook

// Confine is what the hook does before it reads an image.
var Confine = confine
