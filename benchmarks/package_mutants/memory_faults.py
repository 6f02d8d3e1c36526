"""Faults that no result shows: memory that is lost, or invalid reads and writes."""

from __future__ import annotations

from fault import Mutant

MEMORY = {
    "HTP": (
        Mutant("scratch is lost", "htp_run.c", "    free(view->op.scratch);\n", ""),
        Mutant(
            "copies of signed inputs are lost",
            "htp_run.c",
            "free(view.tensors[i].data);",
            "view.tensors[i].data = NULL;",
        ),
        Mutant(
            "scratch is one byte short",
            "htp_run.c",
            "? malloc(view->op.scratch_size) : NULL;",
            "? malloc(view->op.scratch_size - 1) : NULL;",
        ),
    ),
    "CPU": (
        Mutant("nodes are lost", "cpu_package.c", "    free(node->tensors);\n    free(node);\n", ""),
        Mutant(
            "scratch is one byte short",
            "cpu_package.c",
            "node->scratch = malloc(size);",
            "node->scratch = malloc(size - 1);",
        ),
        Mutant(
            "a view is freed twice",
            "cpu_package.c",
            "    opdb_op_view_free(&node->view);\n    free(node->tensors);",
            "    opdb_op_view_free(&node->view);\n    free(node->tensors);\n    free(node->tensors);",
        ),
    ),
    "ORT": (
        Mutant("kernels are lost", "ort_package.c", "    free(made);\n", ""),
        Mutant("scratch is lost", "ort_package.c", "    free(view->op.scratch);\n", ""),
        Mutant(
            "scratch is one byte short",
            "ort_package.c",
            "? malloc(view->op.scratch_size) : NULL;",
            "? malloc(view->op.scratch_size - 1) : NULL;",
        ),
        Mutant("attributes are lost", "ort_values.c", "        free(floats);\n", ""),
    ),
}
