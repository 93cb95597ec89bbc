#!/usr/bin/env bash
# What fastqps needs in a manylinux_2_28 image and AlmaLinux 8 has not, or too old: nghttp2, simdjson and OpenSSL 3 as
# libraries, nlohmann's JSON and Boost as headers. cibuildwheel runs this once in each image, with a network.
set -euo pipefail
prefix=/usr/local sources=$(mktemp -d)
jobs=$(nproc)

get() { git clone -q --depth 1 --branch "$2" --recurse-submodules --shallow-submodules "https://github.com/$1" "$sources/$3"; }
build() { # FOLDER, then flags of cmake
    local folder=$sources/$1
    shift
    cmake -S "$folder" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$prefix \
        -DCMAKE_INSTALL_LIBDIR=lib "$@"
    cmake --build "$folder/build" -j "$jobs" --target install
}

yum install -y -q perl-core zlib-devel
get openssl/openssl openssl-3.0.16 openssl
(cd "$sources/openssl" && ./config --prefix=$prefix --libdir=lib --openssldir=/etc/pki/tls shared no-tests &&
    make -s -j "$jobs" && make -s install_sw)
get nghttp2/nghttp2 v1.64.0 nghttp2
build nghttp2 -DENABLE_LIB_ONLY=ON -DBUILD_SHARED_LIBS=ON
get simdjson/simdjson v3.10.1 simdjson
build simdjson -DBUILD_SHARED_LIBS=ON -DSIMDJSON_DEVELOPER_MODE=OFF
get nlohmann/json v3.11.3 json
build json -DJSON_BuildTests=OFF
get boostorg/boost boost-1.86.0 boost
(cd "$sources/boost" && ./bootstrap.sh >/dev/null && ./b2 -d0 headers && cp -rL boost $prefix/include/)
ldconfig
rm -rf "$sources"
