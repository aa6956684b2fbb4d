#!/bin/sh
# Counts the planted causes on an NVIDIA GPU: count.sh DIR leaves cuda.raw.csv.gz, triton.raw.csv.gz and both details pages there.
set -u
here=$(dirname "$0"); out=$1; work=$(mktemp -d)
nvcc -O3 -std=c++17 -arch=native -o "$work/plants" "$here/plants.cu"
count() {  # the clocks are left alone: they belong to whoever runs the machine
  name=$1; shift
  timeout 110 ncu --set full --import-source no --clock-control none --force-overwrite --export "$work/$name" "$@" > "$work/$name.txt" 2>&1 || tail -5 "$work/$name.txt"
  for page in raw details; do ncu --import "$work/$name.ncu-rep" --csv --page $page | gzip > "$out/$name.$page.csv.gz"; done
}
count cuda "$work/plants"
count triton --profile-from-start off "${PYTHON:-python3}" "$here/plants.py"
ncu --import "$work/triton.ncu-rep" --page details | gzip > "$out/triton.details.txt.gz"
cp "$work/triton.ncu-rep" "$out/" && gzip -9 "$out/triton.ncu-rep"
ls -l "$out"
