"""Faults in the C between ONNX Runtime and a kernel."""

from __future__ import annotations

from fault import Mutant

VALUES = (
    Mutant(
        "a type is taken for another",
        "ort_values.c",
        "    case OPDB_I16:\n        return 5;",
        "    case OPDB_I16:\n        return 4;",
    ),
    Mutant(
        "lists are scalars",
        "ort_values.c",
        "        if (param->rank > 0)\n",
        "        if (param->rank > 9)\n",
    ),
    Mutant(
        "real numbers are asked as integers",
        "ort_values.c",
        "    const bool real = param->dtype == OPDB_F32 || param->dtype == OPDB_F64;",
        "    const bool real = param->dtype == OPDB_F64;",
    ),
    Mutant(
        "of each list the first value",
        "ort_values.c",
        "        out->count = (int64_t)n;",
        "        out->count = 1;",
    ),
    Mutant("values of another parameter", "ort_values.c", "        at += n;\n", "        at += 0;\n"),
    Mutant(
        "rows are one list",
        "ort_values.c",
        "in->rank == 2 ? (int64_t)n / in->width : (int64_t)n;",
        "(int64_t)n;",
    ),
    Mutant(
        "the width of rows is lost",
        "ort_values.c",
        "view->shapes[given][1] = in->width;",
        "view->shapes[given][1] = 1;",
    ),
    Mutant(
        "a real scalar is lost",
        "ort_values.c",
        "out->real = real ? view->reals[at] : 0.0;",
        "out->real = 0.0;",
    ),
    Mutant("the reals of a list are lost", "ort_values.c", "(double)floats[k];", "(double)floats[0];"),
    Mutant(
        "parameters of another name",
        "ort_values.c",
        "out->name = in->name;",
        "out->name = op->params[0].name;",
    ),
    Mutant(
        "one parameter fewer",
        "ort_values.c",
        "view->op.num_params = given;",
        "view->op.num_params = given - (given > 0);",
    ),
    Mutant(
        "dims are one more",
        "ort_values.c",
        "            return false;\n    out->rank",
        "            return false;\n    for (size_t d = 0; d < rank; d++)\n        view->dims[i][d]++;\n    out->rank",
    ),
    Mutant(
        "the rank is one less",
        "ort_values.c",
        "out->rank = (uint32_t)rank;",
        "out->rank = (uint32_t)rank - 1;",
    ),
    Mutant("inputs in the first place", "ort_values.c", "view->slots[i] = out;", "view->slots[0] = out;"),
)
OPS = (
    Mutant(
        "an omitted input is an error",
        "ort_package.c",
        "            continue; /* omitted */",
        "            return false;",
    ),
    Mutant(
        "data of the first input",
        "ort_package.c",
        "&view->tensors[i].data)))\n            return false;\n    }\n    return true;\n}\n\n/* Creates the outputs",
        "&view->tensors[0].data)))\n            return false;\n    }\n    return true;\n}\n\n/* Creates the outputs",
    ),
    Mutant(
        "outputs where inputs are", "ort_package.c", "view->slots[inputs + i] = out;", "view->slots[i] = out;"
    ),
    Mutant(
        "outputs get the first shape",
        "ort_package.c",
        "memcpy(view->dims[inputs + i], shapes->v[i].dims,",
        "memcpy(view->dims[inputs + i], shapes->v[0].dims,",
    ),
    Mutant(
        "the first output twice",
        "ort_package.c",
        "(context, i, out->dims, out->rank, &value)",
        "(context, 0, out->dims, out->rank, &value)",
    ),
    Mutant(
        "an output is one row short",
        "ort_package.c",
        "*out = (opdb_tensor){.rank = shapes->v[i].rank,",
        "view->dims[inputs + i][0] -= 1;\n        *out = (opdb_tensor){.rank = shapes->v[i].rank,",
    ),
    Mutant(
        "a refusal without its reason",
        "ort_package.c",
        "            opdb_violation_text(&report->v[i], text, sizeof text);\n",
        "",
    ),
    Mutant(
        "a failure of the kernel is not told",
        "ort_package.c",
        "return status == OPDB_OK ? NULL : refusal(&report, op, status);",
        "return NULL;",
    ),
    Mutant(
        "no scratch",
        "ort_package.c",
        "view->op.scratch = view->op.scratch_size > 0 ? malloc(view->op.scratch_size) : NULL;",
        "view->op.scratch = NULL, view->op.scratch_size = 0;",
    ),
    Mutant(
        "scratch too small",
        "ort_package.c",
        "? malloc(view->op.scratch_size) : NULL;",
        "? malloc(view->op.scratch_size / 4096) : NULL;",
    ),
    Mutant(
        "no parameters",
        "ort_package.c",
        "view.op.num_params = made->attributes.op.num_params;",
        "view.op.num_params = 0;",
    ),
    Mutant(
        "parameters of the first op",
        "ort_package.c",
        "    made->op = op_of(custom);\n",
        "    made->op = &opdb_this_package.ops[0];\n",
    ),
    Mutant(
        "the first op for all",
        "ort_package.c",
        "                             &opdb_this_package.ops[i]};",
        "                             &opdb_this_package.ops[0]};",
    ),
    Mutant(
        "inferred shapes are the first one's",
        "ort_package.c",
        "const int64_t *,\n                                             size_t)(info, shapes.v[i].dims, shapes.v[i].rank)",
        "const int64_t *,\n                                             size_t)(info, shapes.v[i].dims, shapes.v[i].rank - 1)",
    ),
    Mutant(
        "inferred for another output",
        "ort_package.c",
        "const void *)(context, i, info));",
        "const void *)(context, 0, info));",
    ),
    Mutant(
        "every slot is wanted",
        "ort_package.c",
        "return op_of(c)->inputs[i].kind; }",
        "return 0 * op_of(c)->inputs[i].kind; }",
    ),
    Mutant(
        "types of the next input",
        "ort_package.c",
        "    return opdb_ort_type(op_of(c)->input_types[i]);",
        "    return opdb_ort_type(op_of(c)->input_types[i]) + 1;",
    ),
    Mutant(
        "stale name of an op", "ort_package.c", "{ return op_of(c)->name; }", "{ return op_of(c)->name + 1; }"
    ),
    Mutant(
        "no shapes are inferred",
        "ort_package.c",
        "    const opdb_status status = op->infer(&view->op, &shapes, &report);\n    if (status == OPDB_UNDECIDABLE)",
        "    const opdb_status status = op->infer(&view->op, &shapes, &report);\n    if (status == OPDB_OK)",
    ),
)
