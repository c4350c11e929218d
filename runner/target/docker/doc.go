// Package docker is the target that makes containers by a Docker engine, through
// testcontainers-go. A plan becomes devices, mounts, device rules, environment and
// groups of a Docker container.
//
// The engine is a private one in a namespace of package sandbox, with its own process
// namespace, storage, socket and containerd, and without network or registry.
// Images are imported. For each cgroup version, one engine serves containers without
// an id map, and another those with one (userns-remap).
//
// # What Docker does not support
//
// Docker has no hooks, and no nosuid, nodev or noexec for a mount. Both are added as
// runtimes that inject devices have always done it: the engine gets an OCI
// runtime (--add-runtime) that amends config.json, and runc
// then makes the container. Ours is "gpurig-probe amend"; it also has cdi-hook
// undo, before each start, what an earlier one left. Running the hook by hand
// on the root that the engine has mounted would be simpler, but comes too early:
// the plan's mounts are not there yet, and the library cache is made from them.
//
// Engines from 25.0 inject CDI devices themselves: with Options.CDI this is used, with the
// Specs of the host. Older ones do not support it.
//
// # Starting a container with another plan
//
// Docker fixes what a container gets when it is created. A start with
// another plan makes an image of the container's root (docker export and import) and
// creates a new container from it, as users do who must keep the data.
//
// # The reaper
//
// testcontainers-go uses a container, Ryuk, to remove what a killed test
// leaves. Its image comes from a registry, which is not available, and it is not needed:
// everything of the private engine ends with this process, however it ends.
package docker
