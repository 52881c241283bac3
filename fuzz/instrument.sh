#!/bin/sh
# Runs rustc; the program is compiled so that libFuzzer sees which code an input reaches.
for argument in "$@"; do
    if [ "$argument" = kube_admission_proxy ]; then
        exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
            -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
            -Cllvm-args=-sanitizer-coverage-trace-compares
    fi
done
exec "$@"
