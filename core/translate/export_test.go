package translate

// Limits that the tests hold a translation to.
const (
	MaxLooks = maxLooks
	MaxDepth = maxDepth
)
