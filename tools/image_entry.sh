#!/bin/sh
# The entry of the image: what is no command of fastqps is for `serve`, so that `docker run IMAGE MODEL` serves MODEL.
case ${1-} in
    bench | card | doctor | predict | serve | top | -h | --help | --version) ;;
    *) set -- serve "$@" ;;
esac
exec fastqps "$@"
