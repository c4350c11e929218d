package specgen

import (
	"encoding/json"
	"errors"
	"fmt"

	"gpurig/core/cdi/nvidia"
	"gpurig/core/refuse"
)

// A reply is what came of a request, in the form that crosses a pipe and lies
// on disk: a result, or refusals.
type reply struct {
	Result   *nvidia.Result `json:"result,omitempty"`
	Refusals []refusal      `json:"refusals,omitempty"`
	// Withheld are those of Result, whose own field stays empty here.
	Withheld map[string]refusal `json:"withheld,omitempty"`
}

// A refusal is a refuse.Error whose cause is text.
type refusal struct {
	Reason refuse.Reason `json:"reason"`
	Where  string        `json:"where,omitempty"`
	Msg    string        `json:"msg"`
	Hint   string        `json:"hint,omitempty"`
	Cause  string        `json:"cause,omitempty"`
}

// written is the reverse of refused.
func written(e *refuse.Error) refusal {
	r := refusal{Reason: e.Reason, Where: e.Where, Msg: e.Msg, Hint: e.Hint}
	if e.Err != nil {
		r.Cause = e.Err.Error()
	}
	return r
}

func (r refusal) refused() *refuse.Error {
	e := &refuse.Error{Reason: r.Reason, Where: r.Where, Msg: r.Msg, Hint: r.Hint}
	if r.Cause != "" {
		e.Err = errors.New(r.Cause)
	}
	return e
}

// newReply keeps refusals, which are answers, and passes other errors on.
func newReply(result *nvidia.Result, err error) (reply, error) {
	if err == nil {
		c := *result
		c.Withheld = nil
		out := reply{Result: &c}
		for name, e := range result.Withheld {
			if out.Withheld == nil {
				out.Withheld = map[string]refusal{}
			}
			out.Withheld[name] = written(e)
		}
		return out, nil
	}
	var out reply
	for _, e := range refuse.As(err) {
		out.Refusals = append(out.Refusals, written(e))
	}
	if len(out.Refusals) == 0 {
		return reply{}, err
	}
	return out, nil
}

// answer is the reverse of newReply.
func (r reply) answer() (*nvidia.Result, error) {
	if len(r.Refusals) > 0 {
		var all []*refuse.Error
		for _, x := range r.Refusals {
			all = append(all, x.refused())
		}
		return nil, refuse.Join(all...)
	}
	if len(r.Withheld) == 0 {
		return r.Result, nil
	}
	out := *r.Result // shared by all who ask
	out.Withheld = map[string]*refuse.Error{}
	for name, x := range r.Withheld {
		out.Withheld[name] = x.refused()
	}
	return &out, nil
}

// parseReply reads what newReply's value was stored as.
func parseReply(data []byte) (reply, error) {
	var r reply
	if err := json.Unmarshal(data, &r); err != nil {
		return reply{}, fmt.Errorf("stored Spec: %w", err)
	}
	if (r.Result == nil || r.Result.Spec == nil) == (len(r.Refusals) == 0) {
		return reply{}, errors.New("stored Spec: neither a Spec nor a refusal, or both")
	}
	return r, nil
}
