package pipeline_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpurig/fakehw/machine/machinetest"
	"gpurig/reports"
)

// requireSlurm skips a test where Slurm cannot be run: GPURIG_REQUIRE_SLURM=1 makes that
// a failure.
func requireSlurm(t *testing.T) {
	t.Helper()
	skip := t.Skipf
	if os.Getenv("GPURIG_REQUIRE_SLURM") != "" {
		skip = t.Fatalf
	}
	for _, p := range []string{"slurmctld", "slurmd", "munged", "sbatch", "scontrol", "setpriv"} {
		if _, err := exec.LookPath(p); err != nil {
			skip("no %s: apt-get install slurm-wlm munge util-linux", p)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: slurmd runs jobs as their user")
	}
}

// A cluster is a Slurm of several nodes on this machine, which is gone after the test.
type cluster struct {
	*bench
	conf  string
	nodes map[string]*os.Process // slurmd
}

// newCluster starts one. Each node has one processor.
func newCluster(t *testing.T, b *bench, nodes ...string) *cluster {
	t.Helper()
	dir := filepath.Join(b.dir, "slurm")
	c := &cluster{bench: b, conf: filepath.Join(dir, "slurm.conf"), nodes: map[string]*os.Process{}}
	// munged wants folders that only it can change, above its own too.
	munge, err := os.MkdirTemp("/run", "gpurig-munge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(munge) })
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // which never fails
	if err := os.WriteFile(filepath.Join(munge, "key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(munge, 0o755); err != nil {
		t.Fatal(err)
	}
	b.must("chown", "-R", "munge", munge)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, len(nodes)+1)
	var lines strings.Builder
	for i, n := range nodes {
		fmt.Fprintf(&lines, "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=1\n", n, host, ports[i+1])
		b.write("slurm/spool/"+n+"/.keep", "")
	}
	b.write("slurm/state/.keep", "")
	b.write("slurm/slurm.conf", fmt.Sprintf(`ClusterName=gpurig
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=%d
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=%[3]s/socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=1
SlurmdTimeout=3
SchedulerParameters=bf_interval=1,sched_interval=1
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/spool/%%n
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmdPidFile=%[4]s/%%n.pid
SlurmctldLogFile=%[4]s/slurmctld.log
SlurmdLogFile=%[4]s/%%n.log
MpiDefault=none
%[5]sPartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`, host, ports[0], munge, dir, lines.String()))
	c.start("setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", "munged", "--foreground", "--key-file="+munge+"/key",
		"--socket="+munge+"/socket", "--pid-file="+munge+"/pid", "--log-file="+munge+"/log", "--seed-file="+munge+"/seed")
	c.until("munged answers", func() bool { _, err := os.Stat(munge + "/socket"); return err == nil })
	c.start("slurmctld", "-D", "-f", c.conf)
	for _, n := range nodes {
		c.nodes[n] = c.start("slurmd", "-D", "-N", n, "-f", c.conf)
	}
	c.until("all nodes are idle", func() bool {
		out, _ := c.run(c.slurm("sinfo", "-h", "-N", "-o", "%T")...)
		return strings.Count(out, "idle\n") == len(nodes)
	})
	return c
}

// freePorts are n ports that nobody has, each another one.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var out []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all are held until the last is found
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

// start starts a daemon, which ends with the test.
func (c *cluster) start(words ...string) *os.Process {
	c.t.Helper()
	cmd := exec.Command("/usr/bin/env", append([]string{"PATH=" + c.path + ":" + os.Getenv("PATH")}, words...)...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd.Process
}

// slurm is a command of Slurm's for this cluster.
func (c *cluster) slurm(words ...string) []string {
	return append([]string{"env", "SLURM_CONF=" + c.conf}, words...)
}

// until waits for something that is known to come.
func (c *cluster) until(what string, done func() bool) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(c.dir, "slurm/slurmctld.log"))
			c.t.Fatalf("%s: not after two minutes\n%s", what, log)
		}
	}
}

func (c *cluster) exists(name string) bool {
	_, err := os.Stat(filepath.Join(c.dir, name))
	return err == nil
}

// lose takes a node away, as a broken network does: slurmd and its helpers are gone, and
// what the job has started goes on.
func (c *cluster) lose(node string) {
	c.t.Helper()
	stepds := func() []string { // of this cluster: they have its files open
		id, _ := c.run(c.slurm("squeue", "-h", "-w", node, "-t", "R", "-o", "%A")...)
		id = strings.TrimSpace(id)
		var out []string
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range all {
			text, _ := os.ReadFile(p + "/cmdline")
			if id == "" || !strings.HasPrefix(string(text), "slurmstepd: ["+id+".") {
				continue
			}
			open, _ := filepath.Glob(p + "/fd/*")
			if slices.ContainsFunc(open, func(fd string) bool {
				to, _ := os.Readlink(fd)
				return strings.HasPrefix(to, c.dir)
			}) {
				out = append(out, filepath.Base(p))
			}
		}
		return out
	}
	c.until("a job is on "+node, func() bool { return len(stepds()) > 0 })
	if err := c.nodes[node].Kill(); err != nil {
		c.t.Fatal(err)
	}
	for _, s := range stepds() {
		pid, _ := strconv.Atoi(s)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
	}
}

// loseAndFind loses a node once its job has written the file hung, and writes the file
// found, for which the job waits, once Slurm knows. The shard is put back at once.
func (c *cluster) loseAndFind(node string) {
	c.t.Helper()
	c.until(node+" has a shard", func() bool { return c.exists("hung") })
	c.lose(node)
	c.until(node+" is down", func() bool {
		out, _ := c.run(c.slurm("sinfo", "-h", "-n", node, "-o", "%T")...)
		return strings.HasPrefix(out, "down")
	})
	c.write("found", "")
	// Slurm lets a job that was put back wait two minutes.
	requeued := func() []string {
		out, _ := c.run(c.slurm("squeue", "-h", "-o", "%i %r")...)
		var ids []string
		for line := range strings.Lines(out) {
			if id, ok := strings.CutSuffix(strings.TrimSpace(line), " BeginTime"); ok {
				ids = append(ids, id)
			}
		}
		return ids
	}
	c.until("the lost shard is back in the queue", func() bool { return len(requeued()) > 0 })
	for _, id := range requeued() {
		c.must(c.slurm("scontrol", "update", "JobId="+id, "StartTime=now")...)
	}
}

// hosts are the fake machines that the nodes of the test are, and their nodes.
var hosts = map[string]string{"n1": "t4-server", "n2": "t4-server", "n3": "a100-mig-2g-3g", "n4": "t4-server"}

// Slurm runs the scenarios of hardware on nodes that have what they need. One node is lost
// while it runs its shard, which another node then runs, and both write their parts; one
// is slow. Every result is there, once, and each was judged.
func TestSlurm(t *testing.T) {
	requireSlurm(t)
	machinetest.RequireNodes(t)
	b := newBench(t)
	b.program("gpurig-on-node", `
case $SLURMD_NODENAME in
n3) host=a100-mig-2g-3g ;;
*) host=t4-server ;;
esac
if [ "$1" = run ]; then
	echo "$SLURMD_NODENAME $*" >>"$PWD/ran"
	case $SLURMD_NODENAME in
	n1) sleep 3 ;; # a slow one
	n2) touch hung && while [ ! -e found ]; do sleep 0.2; done ;; # lost, and comes back later
	esac
fi
[ "$1" != merge ] && [ "$1" != compare ] || exec gpurig "$@"
exec gpurig host enter "$host" -- "$GPURIG" "$@"`)
	gpurig := filepath.Join(b.path, "gpurig")
	for n := range hosts {
		b.write("nodes/"+n+".json", b.must("env", "SLURMD_NODENAME="+n, "GPURIG="+gpurig, "gpurig-on-node", "doctor", "--output", "json"))
	}
	c := newCluster(t, b, "n1", "n2", "n3", "n4")
	own := filepath.Join(b.path, "gpurig-on-node")
	scenarios := []string{"hardware/by-uuid", "hardware/by-address", "hardware/no-such-gpu", "hardware/first-gpu-alone", "hardware/two-gpus-apart", "hardware/mig-device-alone"}
	c.must(append([]string{"gpurig", "ci-matrix", "--for", "slurm", "--shards", "6", "--hardware", "--lxc-version", "5.0.2", "--nodes", "nodes", "--program", "env GPURIG=" + gpurig + " " + own}, scenarios...)...)
	c.must(c.slurm("sh", "features.sh")...)

	submit := c.command(c.slurm("GPURIG_OUT=out", "sh", "submit.sh")...)
	var said strings.Builder
	submit.Stdout, submit.Stderr = &said, &said
	if err := submit.Start(); err != nil {
		t.Fatal(err)
	}
	c.loseAndFind("n2")
	if err := submit.Wait(); err != nil {
		t.Errorf("submit.sh: %v\n%s", err, &said)
	}

	all := read(t, b, "out/all.json")
	var names []string
	for _, r := range all.Results {
		if names = append(names, r.Scenario); r.Verdict != reports.Pass {
			t.Errorf("%s is %s: %s", r.Key(), r.Verdict, r.Reason)
		}
	}
	if slices.Sort(scenarios); !all.Complete || !slices.Equal(slices.Compact(names), scenarios) {
		t.Errorf("complete %v, results %q", all.Complete, names)
	}
	twice, err := filepath.Glob(filepath.Join(b.dir, "out/part-*-1.json"))
	if err != nil || len(twice) != 1 || !c.exists(filepath.Join("out", strings.Replace(filepath.Base(twice[0]), "-1.json", "-0.json", 1))) {
		t.Errorf("parts that a second node wrote: %q; want one, and that of the lost node beside it", twice)
	}
	ran, err := os.ReadFile(filepath.Join(b.dir, "ran"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("what ran where:\n%s%s", ran, &said)
	if !c.exists("last-green.json") {
		t.Error("the green run is not kept")
	}
}

// With GPURIG_SLURM_NODES=100 a Slurm of so many nodes runs 10,000 variants; one node is
// lost while it works and one is slow. Every result is there.
func TestSlurmOfManyNodes(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("GPURIG_SLURM_NODES"))
	if err != nil || n < 2 {
		t.Skip("GPURIG_SLURM_NODES=100 says how many nodes")
	}
	requireSlurm(t)
	b := newBench(t)
	const files, all = 125, 10_000
	for i := range files {
		b.write(fmt.Sprintf("many/s%03d.yaml", i), `# A container starts on every host.
matrix:
  host: [t4-server, dgx-a100, hgx-h200, dgx-h100, dgx-b200, rhel-t4, snap-t4, l40s-server, opt-t4, workstation]
  cgroup: [v1, v2]
  idmap: [none, default]
  image: [glibc, glibc-unmerged]
containers: {c1: {devices: {gpu0: {id: nvidia.com/gpu=0}}}}
expect: {c1: {running: true}}
`)
	}
	b.program("on-node", `
if [ "$1" = run ]; then
	case $SLURMD_NODENAME in
	n1) sleep 10 ;;
	n2) touch hung && while [ ! -e found ]; do sleep 0.2; done ;;
	esac
fi
exec gpurig "$@"`)
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i+1))
	}
	c := newCluster(t, b, names...)
	t.Logf("%s", c.must("gpurig", "ci-matrix", "--for", "slurm", "--shards", fmt.Sprint(n), "--program", filepath.Join(b.path, "on-node"), "many"))
	submit := c.command(c.slurm("GPURIG_OUT=out", "sh", "submit.sh")...)
	var said strings.Builder
	submit.Stdout, submit.Stderr = &said, &said
	if err := submit.Start(); err != nil {
		t.Fatal(err)
	}
	c.loseAndFind("n2")
	if err := submit.Wait(); err != nil {
		t.Errorf("submit.sh: %v", err)
	}
	t.Logf("%s", &said)
	got := read(t, b, "out/all.json")
	if !got.Complete || got.Totals.All() != all || got.Totals.Fail+got.Totals.Broken > 0 {
		t.Errorf("complete %v, %+v; want %d results", got.Complete, got.Totals, all)
	}
}
