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
}

// A refusal is a refuse.Error whose cause is text.
type refusal struct {
	Reason refuse.Reason `json:"reason"`
	Where  string        `json:"where,omitempty"`
	Msg    string        `json:"msg"`
	Hint   string        `json:"hint,omitempty"`
	Cause  string        `json:"cause,omitempty"`
}

// newReply keeps refusals, which are answers, and passes other errors on.
func newReply(result *nvidia.Result, err error) (reply, error) {
	if err == nil {
		return reply{Result: result}, nil
	}
	var out reply
	for _, e := range refuse.As(err) {
		r := refusal{Reason: e.Reason, Where: e.Where, Msg: e.Msg, Hint: e.Hint}
		if e.Err != nil {
			r.Cause = e.Err.Error()
		}
		out.Refusals = append(out.Refusals, r)
	}
	if len(out.Refusals) == 0 {
		return reply{}, err
	}
	return out, nil
}

// answer is the reverse of newReply.
func (r reply) answer() (*nvidia.Result, error) {
	if len(r.Refusals) == 0 {
		return r.Result, nil
	}
	var all []*refuse.Error
	for _, x := range r.Refusals {
		e := &refuse.Error{Reason: x.Reason, Where: x.Where, Msg: x.Msg, Hint: x.Hint}
		if x.Cause != "" {
			e.Err = errors.New(x.Cause)
		}
		all = append(all, e)
	}
	return nil, refuse.Join(all...)
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
