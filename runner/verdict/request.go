package verdict

import (
	"path"
	"strings"

	"gpurig/core/plan"
	"gpurig/runner/observe"
	"gpurig/scenarios"
)

// Request says where to look so that want can be judged, and Always with the
// plan p (nil: none).
func Request(want scenarios.Expect, p *plan.Plan) observe.Request {
	var r observe.Request
	if p != nil {
		for _, l := range p.Links {
			r.Dirs = append(r.Dirs, path.Dir(l.Path))
		}
	}
	for at := range want.Links {
		r.Paths = append(r.Paths, at)
	}
	for at := range want.Resolves {
		r.Paths = append(r.Paths, at)
	}
	for at := range want.Files {
		r.Paths = append(r.Paths, at)
	}
	for _, at := range want.Absent {
		if strings.ContainsAny(at, `*?[\`) {
			r.Dirs = append(r.Dirs, path.Dir(at))
		} else {
			r.Paths = append(r.Paths, at)
		}
	}
	for soname := range want.Library {
		r.SONAMEs = append(r.SONAMEs, soname)
	}
	for at := range want.Contents {
		r.Contents = append(r.Contents, at)
	}
	r.Texts = want.Nowhere
	if want.Smoke != nil {
		r.Smoke = &observe.Work{}
	}
	return MergeRequests(r)
}
