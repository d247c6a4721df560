#!/usr/bin/env python3
"""Reads the innermost loops of layers, attention and optimizer as gcc has compiled them for AVX2, since results stay right
where a loop is slow. Finds those that store a vector on the stack and load it again, as with a vector wider than a
register, and those with scalar arithmetic whose function has no loop with the same arithmetic on vectors; beside such a
loop they compute what is left of a row, or rows that overlap.

    tests/loops.py BUILD      the folder of a build by gcc for x86-64, as build/gcc"""

import glob
import re
import subprocess
import sys

FOLDERS = ("ops", "model", "train")
CLONE = re.compile(r"<(.*)\.(?:arch_x86_64_v3|avx2)>:")
INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\t(?:bnd |notrack )?(\S+)\s*([^#]*)")
ARITHMETIC = re.compile(r"v?(add|sub|mul|div|sqrt|min|max|f)(?:n?m(?:add|sub))?\d*([sp])[sd]$")
VECTOR_STORE = re.compile(r"%[xyz]mm\d+,(\S*\(%r[sb]p\))$")
# sums in the order of their terms: what is left of a row, and matrices
IN_ORDER = {"cross_entropy_rows", "muon"}


def functions(path):
    """The name and the instructions, (address, name, operands), of each function that was compiled for AVX2."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    for text in listing.stdout.split("\n\n"):
        head, _, body = text.partition("\n")
        if name := CLONE.search(head):
            found = (INSTRUCTION.match(line) for line in body.splitlines())
            yield name[1], [(int(i[1], 16), i[2], i[3].strip()) for i in found if i]


def innermost_loops(code):
    """Each loop with arithmetic, and without another such loop inside, as the indices of its instructions: what reaches a
    jump backwards from the jump's target."""
    index = {address: i for i, (address, _, _) in enumerate(code)}
    before, loops = [[] for _ in code], {}
    for i, (_, name, operands) in enumerate(code):
        target = re.match(r"([0-9a-f]+) <", operands)
        if name.startswith("j") and target and int(target[1], 16) in index:
            before[index[int(target[1], 16)]].append(i)
        if i + 1 < len(code) and name not in ("jmp", "ret"):
            before[i + 1].append(i)
    for head, tail in ((h, t) for h in range(len(code)) for t in before[h] if t >= h):
        inside, todo = {head}, [tail]
        while todo:
            if (i := todo.pop()) not in inside:
                inside.add(i)
                todo += before[i]
        if 0 not in inside:
            loops.setdefault(head, set()).update(inside)
    loops = {head: inside for head, inside in loops.items() if any(ARITHMETIC.match(code[i][1]) for i in inside)}
    return [sorted(inside) for head, inside in loops.items() if not any(h in inside for h in loops if h != head)]


def faults(code):
    loops = [[code[i] for i in loop] for loop in innermost_loops(code)]
    kinds = [[(a[1], a[2]) for _, name, _ in loop if (a := ARITHMETIC.match(name))] for loop in loops]
    vectorized = [{operation for operation, width in kind if width == "p"} for kind in kinds]
    for loop, kind in zip(loops, kinds):
        stored = {m[1] for _, name, operands in loop if re.match("v?mov[^s]", name) and (m := VECTOR_STORE.search(operands))}
        loaded = [s for s in stored if any(s in o and not o.endswith("," + s) for _, _, o in loop)]
        scalar = {operation for operation, width in kind if width == "s"}
        if loaded:
            yield loop[0][0], "stores a vector on the stack and loads it again"
        if scalar and not any(scalar <= operations for operations in vectorized):
            yield loop[0][0], "has scalar arithmetic (" + ", ".join(sorted(scalar)) + ")"


def main():
    objects = [o for folder in FOLDERS for o in sorted(glob.glob(f"{sys.argv[1]}/float/src/{folder}/*.o"))]
    read, found = 0, 0
    for path in objects:
        for name, code in functions(path):
            read += 1
            for address, fault in faults(code):
                if name in IN_ORDER and fault.startswith("has scalar arithmetic (add)"):
                    continue
                found += 1
                print(f"{path}: {name}: the loop at {address:x} {fault}")
    if not read:
        sys.exit(f"loops.py: no function in {sys.argv[1]} is compiled for AVX2")
    print(f"{read} functions for AVX2, {found} slow loops")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
