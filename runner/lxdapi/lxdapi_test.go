package lxdapi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gpurig/runner/lxdapi"
)

// A daemon answers as it is told to, by "METHOD path".
func daemon(t *testing.T, answers map[string]string) string {
	t.Helper()
	return listen(t, func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.Method+" "+r.URL.Path]
		if text == "hang up" {
			panic(http.ErrAbortHandler)
		}
		if !ok {
			text = `{"type":"error","error":"not found","error_code":404}`
		}
		fmt.Fprint(w, text)
	})
}

// listen serves on a socket, which it returns.
func listen(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: answer}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return socket
}

const hello = `{"type":"sync","metadata":{"auth":"trusted","api_extensions":["etag"],"environment":{"server":"lxd","server_version":"5.0.2","driver":"lxc | qemu","driver_version":"5.0.2 | 7"}}}`

func dial(t *testing.T, answers map[string]string) *lxdapi.Client {
	t.Helper()
	answers["GET /1.0"] = hello
	c, err := lxdapi.Dial(context.Background(), daemon(t, answers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestDialSaysWhoAnswers(t *testing.T) {
	s := dial(t, map[string]string{}).Server()
	if s.Flavour != lxdapi.LXD || s.Version != "5.0.2" || s.Driver != "lxc" || s.DriverVer != "5.0.2" || !s.Has("etag") || s.Has("gpu_cdi") {
		t.Errorf("Server() = %+v", s)
	}
}

func TestDialSaysWhyNot(t *testing.T) {
	for _, tc := range []struct{ name, answer, want string }{
		{"another program", `{"type":"sync","metadata":{"auth":"trusted","environment":{"server":"docker"}}}`, `calls itself "docker"`},
		{"not trusted", `{"type":"sync","metadata":{"auth":"untrusted","environment":{"server":"lxd"}}}`, "does not trust us"},
		{"no REST API", "<html>", "not of the REST API"},
		{"an unknown envelope", `{"type":"odd"}`, `unknown type "odd"`},
		{"an error without words", `{"type":"error","error_code":500}`, "without a text, code 500"},
		{"hang up", "hang up", "no answer from the daemon"},
	} {
		_, err := lxdapi.Dial(context.Background(), daemon(t, map[string]string{"GET /1.0": tc.answer}))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Dial() = %v; want %q", tc.name, err, tc.want)
		}
	}
	if _, err := lxdapi.Dial(context.Background(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, lxdapi.ErrConnection) {
		t.Errorf("no socket: Dial() = %v; want ErrConnection", err)
	}
}

// A socket that somebody else may use, and we not, is told from one that is not there.
// Root may use every socket: there this test binary asks again as another user.
func TestDialWithoutPermission(t *testing.T) {
	const asked = "GPURIG_TEST_DIAL"
	socket := os.Getenv(asked)
	if socket == "" {
		dir, err := os.MkdirTemp("", "gpurig-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		socket = filepath.Join(dir, "s")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if err := os.Chmod(socket, 0); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(filepath.Dir(socket), "again") // the other user may not reach our own
		if err := os.WriteFile(copied, self, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(copied, "-test.run", "^TestDialWithoutPermission$")
		cmd.Dir, cmd.Env = "/", []string{asked + "=" + socket}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("as another user: %v\n%s", err, out)
		}
		return
	}
	_, err := lxdapi.Dial(context.Background(), socket)
	if !errors.Is(err, lxdapi.ErrConnection) || !errors.Is(err, syscall.EACCES) {
		t.Errorf("Dial() = %v; want ErrConnection, permission denied", err)
	}
}

// Incus says a moment too soon that a container has ended, whose start failed.
func TestIncusIsAskedAgain(t *testing.T) {
	for server, want := range map[string]int{"incus": 3, "lxd": 1} {
		asked := 0
		socket := listen(t, func(w http.ResponseWriter, r *http.Request) {
			switch asked++; {
			case r.URL.Path == "/1.0":
				asked = 0
				fmt.Fprint(w, strings.Replace(hello, `"server":"lxd"`, `"server":"`+server+`"`, 1))
			case asked < 3:
				fmt.Fprint(w, `{"type":"error","error":"Instance is running","error_code":400}`)
			default:
				fmt.Fprint(w, `{"type":"sync"}`)
			}
		})
		c, err := lxdapi.Dial(context.Background(), socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Delete(context.Background(), "c1"); asked != want || (err == nil) != (want == 3) {
			t.Errorf("%s: Delete() = %v after %d requests, want %d", server, err, asked, want)
		}
	}
}

// A package may have the daemon off the path.
func TestDaemonIsFound(t *testing.T) {
	t.Setenv("PATH", "/nothing")
	if got := lxdapi.LXD.Daemon(); got != "lxd" {
		t.Errorf("LXD: %q", got)
	}
	got := lxdapi.Incus.Daemon()
	if _, err := os.Stat("/usr/libexec/incus/incusd"); err != nil {
		t.Skip("no Incus of Debian's package is installed here")
	}
	if got != "/usr/libexec/incus/incusd" {
		t.Errorf("Incus: %q", got)
	}
}

// What the server says is kept word for word, of a refusal and of an operation
// that fails later.
func TestErrorsAreVerbatim(t *testing.T) {
	const words = `Failed to start device "gpu0": Invalid "id" value`
	c := dial(t, map[string]string{
		"PUT /1.0/instances/c1/state":   `{"type":"async","operation":"/1.0/operations/x"}`,
		"GET /1.0/operations/x/wait":    `{"type":"sync","metadata":{"status_code":400,"err":` + fmt.Sprintf("%q", words) + `}}`,
		"POST /1.0/instances":           `{"type":"error","error":"Instance \"c1\" already exists","error_code":409}`,
		"PUT /1.0/instances/lost/state": "hang up",
	})
	err := c.Start(context.Background(), "c1")
	if e, ok := errors.AsType[*lxdapi.Error](err); !ok || e.Text != words || e.Op != "start c1" {
		t.Errorf("Start() = %#v; want %q", err, words)
	}
	if err := c.Create(context.Background(), "c1", "img", lxdapi.Instance{}); !lxdapi.IsTaken(err) {
		t.Errorf("Create() = %v; want a name that is taken", err)
	}
	if err := c.Start(context.Background(), "lost"); !errors.Is(err, lxdapi.ErrConnection) {
		t.Errorf("Start(lost) = %v; want ErrConnection", err)
	}
	if err := c.Delete(context.Background(), "none"); err != nil {
		t.Errorf("Delete(none) = %v; none is as good", err)
	}
	if _, err := c.State(context.Background(), "none"); !lxdapi.IsNotFound(err) {
		t.Errorf("State(none) = %v", err)
	}
}
