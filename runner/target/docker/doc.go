// Package docker is the target that makes containers by a Docker engine, through
// testcontainers-go: a plan in the engine's own words, which are devices, mounts,
// rules for devices, environment and groups.
//
// The engine is a private one in a world of package world: a process namespace,
// storage, a socket and a containerd of its own, no network and no registry.
// Images are imported. One engine serves the containers without an id map, and
// another those with (userns-remap), for each cgroup version.
//
// # What Docker cannot say
//
// Docker has no hooks, and no nosuid, nodev or noexec for a mount. Both come the
// way that runtimes which inject devices have taken since Docker has GPUs: an OCI
// runtime that the engine is told of (--add-runtime) amends config.json, and runc
// then makes the container. Ours is "gpurig-probe amend"; it also has cdi-hook
// take back before each start what an earlier one left. To run the hook by hand
// on the root that the engine has mounted would be simpler, but comes too early:
// what the plan mounts is not there yet, and the library cache is made of that.
//
// An engine from 25.0 injects CDI devices itself: with Options.CDI it does so, from the
// Specs of the host. An older one is too old for that.
//
// # A container that is started with another plan
//
// What a Docker container is given is fixed when it is created. A start with
// another plan makes an image of the container's root (docker export and import) and
// creates the container anew from that, as a user does who must not lose it.
//
// # The reaper
//
// testcontainers-go has a container of its own, Ryuk, remove what a killed test
// leaves. It comes from a registry, which is not there, and it is not needed:
// everything of the private engine ends with us, however we go.
package docker
