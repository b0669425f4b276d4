#!/usr/bin/env bash
# Builds the C++ of simhash-py 0.4.0 as a shared library: benchmarks/build_simhash_py.sh OUT.so
# Its source distribution lacks simhash.pxd, and its Python part needs a Cython of its time, so that it does not install on
# Python 3.11. What is measured is its find_all; two functions make it callable through ctypes, without Python's lists: the set of
# codes that it takes, and the number of pairs that it finds.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 OUT.so"; exit 2; }
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pip download -q --no-deps --no-binary :all: simhash-py==0.4.0
tar xf simhash-py-0.4.0.tar.gz
cat > door.cpp <<'CPP'
#include "simhash.h"
typedef std::unordered_set<Simhash::hash_t> codes;
extern "C" void *codes_new(const uint64_t *values, size_t count) { return new codes(values, values + count); }
extern "C" void codes_free(void *all) { delete static_cast<codes *>(all); }
extern "C" size_t count_pairs(void *all, size_t blocks, size_t bits)
{
    return Simhash::find_all(*static_cast<codes *>(all), blocks, bits).size();
}
CPP
source=simhash-py-0.4.0/simhash/simhash-cpp
g++ -O2 -std=c++11 -shared -fPIC -I"$source/include" "$source"/src/*.cpp door.cpp -o "$out"
