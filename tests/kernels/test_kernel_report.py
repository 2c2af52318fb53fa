"""The compile report of the kernels: how it reads what came out. `make kernel-report`, once a week, says the rest."""

import os
import subprocess
import sys
from pathlib import Path

import kernel_report
import pytest

pytestmark = pytest.mark.weekly

SASS = """
        /*0000*/                   I2F.S64 R1, R2 ;
.L_x_0:
.L_x_1:
        /*0020*/                   I2F.S64 R40, R44 ;
        /*0040*/                   I2F.F64.S64 R40, R44 ;
        /*0060*/                   MUFU.EX2 R40, R44 ;
        /*0070*/              @!P2 BRA `(.L_x_9) ;
        /*0090*/               @P1 BRA `(.L_x_1) ;
        /*00a0*/                   MUFU.RCP R40, R44 ;
        /*00b0*/              @P1 BRA `(.L_x_0) ;
.L_x_2:
        /*00c0*/                   MUFU.EX2 R40, R44 ;
        /*00d0*/                   REDG.E.ADD.64.STRONG.GPU desc[UR42][R62.64], R20 ;
        /*00f0*/               @P1 BRA `(.L_x_2) ;
.L_x_9:
        /*0100*/                   ATOMG.E.ADD PT, R4, desc[UR4][R2.64], R5 ;
"""


def test_instructions_are_counted_in_the_loops_over_scores():
    """Two loops with two scores a thread: what stands before, around or after them costs a score nothing."""
    assert list(map(len, kernel_report.score_loops(SASS))) == [5, 3]
    found = kernel_report.per_score(SASS, (8, 8, 1, 1))
    assert found == {"conversions": 0.5, "atomics": 0.5, "divisions": 0.0, "exponentials": 0.5}


TTIR = """
  tt.func public @f(%q_ptr: !tt.ptr<f16> loc("q_ptr"(#loc)), %stride: i32 {tt.divisibility = 16} loc("stride"(#loc))) {
    %c64_i32 = arith.constant 64 : i32 loc(#loc5)
    %0 = tt.get_program_id x : i32 loc(#loc8)
    %1 = arith.muli %0, %c64_i32 : i32 loc(#loc9)
    %2 = arith.extsi %stride : i32 to i64 loc(#loc9)
    %3 = arith.extsi %1 : i32 to i64 loc(#loc9)
    %4 = arith.muli %3, %2 : i64 loc(#loc9)
    %5 = arith.muli %0, %stride : i32 loc(#loc9)
    %q = tt.addptr %q_ptr, %4 : !tt.ptr<f16>, i64 loc(#loc10)
    %6 = arith.muli %n, %stride : tensor<4xi32> loc(#loc9)
    %7 = arith.addi %6, %6 : tensor<4xi32> loc(#loc9)
    %8 = tt.addptr %q, %7 : tensor<4x!tt.ptr<f16>>, tensor<4xi32> loc(#loc10)
"""


def test_index_products_in_32_bits_are_found():
    """One of four products: the others are with a constant, in 64 bits, and of no address."""
    assert kernel_report.narrow_products(TTIR) == 1
    assert kernel_report.narrow_products(TTIR.replace("tensor<4xi32> loc(#loc9)", "tensor<4xi64> loc(#loc9)")) == 0


def test_a_tile_too_large_is_a_problem():
    """Four stages of 128 x 128 at head size 128 want more shared memory than 8.6 has."""
    pytest.importorskip("triton")
    call = "compile_rows('softmax', 'plain', '8.6', 'float16', 128, (128, 128, 8, 4), ['forward'])"
    code = f"from kernel_report import compile_rows, problems; print(*problems({call}))"
    here = {"cwd": Path(kernel_report.__file__).parent, "env": os.environ | {"TRITON_INTERPRET": "0"}}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **here)
    assert run.stdout.count("shared memory") == 1, run.stderr
