#!/bin/sh
# Prints the version of this source: the last tag v1.2.3 as 1.2.3, with the number of
# commits since and the commit after a plus sign; 0.0.0 where there is no tag. Outside a
# git checkout it is what the file VERSION says.
set -eu
cd "$(dirname "$0")/.."
if [ -f VERSION ]; then
	cat VERSION
	exit
fi
if ! described=$(git describe --tags --long --match 'v[0-9]*' --abbrev=12 2>/dev/null); then
	described="v0.0.0-$(git rev-list --count HEAD)-g$(git rev-parse --short=12 HEAD)" # says why there is none
fi
rest=${described%-g*} commit=g${described##*-g}
tag=${rest%-*} since=${rest##*-}
version=${tag#v}
[ "$since" = 0 ] || version=$version+$since.$commit
[ -z "$(git status --porcelain --untracked-files=no)" ] || case $version in *+*) version=$version.dirty ;; *) version=$version+dirty ;; esac
echo "$version"
