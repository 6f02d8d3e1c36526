"""Faults in the C of a package for Cloud AI: between the compiler or a core, and a kernel."""

from __future__ import annotations

from fault import Mutant
from qnn_faults import TILES

KERNEL, NODE, FUNCTIONS = "cloud_ai/aic_kernel.h", "cloud_ai/aic_node.h", "cloud_ai/functions.c"
PREPARE = (
    "    if (thread == 0)\n        opdb_aic_prepare(aic, inputs, num_inputs, outputs, num_outputs, params, num_params, ctx, "
    "threads);\n"
)
SYNC = "    if (threads > 1)\n        ctx->syncThread(thread);\n"

THREADS = (
    Mutant("syncThread is missing", KERNEL, SYNC, ""),
    Mutant(
        "one thread does not call syncThread",
        KERNEL,
        SYNC,
        "    if (threads > 1 && thread != 2)\n        ctx->syncThread(thread);\n",
    ),
    Mutant(
        "thread 0 alone calls syncThread",
        KERNEL,
        SYNC,
        "    if (threads > 1 && thread == 0)\n        ctx->syncThread(thread);\n",
    ),
    Mutant("syncThread twice", KERNEL, SYNC, SYNC + SYNC),
    Mutant("threads leave pieces out", KERNEL, "j += threads)", "j += threads + 1)"),
    Mutant(
        "all threads begin with the first piece", KERNEL, "for (int64_t j = thread;", "for (int64_t j = 0;"
    ),
    Mutant(
        "nothing is divided",
        KERNEL,
        "threads > 1 && opdb_aic_plan_of(aic, shared, ctx)",
        "threads > 4 && opdb_aic_plan_of(aic, shared, ctx)",
    ),
    Mutant(
        "the whole is computed by nobody",
        KERNEL,
        "OPDB_AIC_WHOLE && thread == 0)",
        "OPDB_AIC_WHOLE && thread == 4)",
    ),
    Mutant(
        "a node that is refused is computed",
        KERNEL,
        'AIC_PRINT_ERROR(ctx, "%s: %s", aic->name, why);\n        return;',
        'AIC_PRINT_ERROR(ctx, "%s: %s", aic->name, why);',
    ),
    Mutant(
        "a failure of the kernel is not told",
        KERNEL,
        '    if (status != OPDB_OK)\n        AIC_PRINT_ERROR(ctx, "%s: the kernel',
        '    if (status == OPDB_OK && size > 1 && size < 1)\n        AIC_PRINT_ERROR(ctx, "%s: the kernel',
    ),
)

PIECES = (
    Mutant(
        "wrong tile origin", KERNEL, "from[d] = j % plan->parts * plan->length;", "from[d] = j % plan->parts;"
    ),
    Mutant("every piece at the first place", KERNEL, "from[d] = outer % y->dims[d];", "from[d] = 0;"),
    Mutant("places in front are one", KERNEL, "int64_t outer = j / plan->parts;", "int64_t outer = 0 * j;"),
    Mutant(
        "a piece is longer by one",
        KERNEL,
        "*plan = (opdb_aic_plan){d, each * multiple,",
        "*plan = (opdb_aic_plan){d, each * multiple + 1,",
    ),
    Mutant(
        "multiples are forgotten",
        KERNEL,
        "const int64_t units = (size + multiple - 1) / multiple;",
        "const int64_t units = size;",
    ),
    Mutant(
        "dims in the opposite order",
        KERNEL,
        "from[d] * size_between(t, d + 1, t->rank);",
        "from[d] * size_between(t, 0, d);",
    ),
    Mutant("elements for bytes", KERNEL, "(size_t)first * element_size(of->dtype);", "(size_t)first;"),
    Mutant(
        "a piece has the shape of the whole", KERNEL, "    piece->tensors[i].dims = piece->dims[i];\n", ""
    ),
    Mutant(
        "what is no run of memory is cut",
        KERNEL,
        "        if (!whole && size[d] > 1)\n            return false;\n",
        "",
    ),
    Mutant(
        "outputs in the slots of inputs",
        KERNEL,
        "piece->op.outputs = piece->slots + op->num_inputs;",
        "piece->op.outputs = piece->slots;",
    ),
    Mutant(
        "scratch too small: nobody asks how much a piece needs",
        KERNEL,
        "opdb_aic_scratch_size(ctx) / OPDB_AIC_THREADS / 16 * 16",
        "opdb_aic_scratch_size(ctx) / OPDB_AIC_THREADS / 65536 * 16",
    ),
    Mutant(
        "threads' scratch behind the buffer",
        KERNEL,
        "mine += (size_t)thread * opdb_aic_share(ctx);",
        "mine += ((size_t)thread + 1) * opdb_aic_scratch_size(ctx) - 16;",
    ),
)

NODES = (
    Mutant("offset with the other sign", NODE, "node->offsets[i] = -offset;", "node->offsets[i] = offset;"),
    Mutant("scale of another encoding's place", NODE, "node->scales[i] = scale;", "node->scales[i] = 1.0f;"),
    Mutant(
        "every encoding is the first input's",
        KERNEL,
        "getInputScale(ctx, i), getInputOffset(ctx, i)",
        "getInputScale(ctx, 0), getInputOffset(ctx, 0)",
    ),
    Mutant(
        "outputs' encodings over inputs'",
        KERNEL,
        "(size_t)(num_inputs + i), getOutputScale",
        "(size_t)i, getOutputScale",
    ),
    Mutant(
        "dims in the opposite order",
        NODE,
        "node->dims[i][d] = AIC_SIZES(in)[d];",
        "node->dims[i][d] = AIC_SIZES(in)[in->rank - 1 - d];",
    ),
    Mutant(
        "outputs where inputs are",
        NODE,
        "opdb_aic_read_tensor(node, (size_t)(num_inputs + i),",
        "opdb_aic_read_tensor(node, (size_t)i,",
    ),
    Mutant("no data", NODE, "    out->data = in->data;\n", ""),
    Mutant(
        "the types of the first row",
        NODE,
        "        if (fits)\n            return row;",
        "        return (void)fits, row;",
    ),
    Mutant(
        "every value of a list is the first",
        NODE,
        "((const int32_t *)in->data)[k];",
        "((const int32_t *)in->data)[0];",
    ),
    Mutant(
        "every real of a list is the first",
        NODE,
        "((const float *)in->data)[k];",
        "((const float *)in->data)[0];",
    ),
    Mutant("the rows of a table are its columns", NODE, "of->rank == 2 ? n / of->width : n;", "n;"),
    Mutant("parameters over each other", NODE, "        at += n;\n", ""),
    Mutant(
        "parameters by their places",
        NODE,
        "while (p < aic->num_params && strcmp(aic->params[p].name, params[i].name) != 0)",
        "while (p < (size_t)i)",
    ),
    Mutant("a scalar is 0", NODE, "out->real = node->reals[at];", "out->real = 0;"),
    Mutant(
        "flags are false", NODE, "((const uint8_t *)in->data)[k] != 0;", "((const uint8_t *)in->data)[k] > 1;"
    ),
)

OF_FUNCTIONS = (
    Mutant(
        "what breaks a rule is taken", FUNCTIONS, "bool good = !opdb_is_broken(&report);", "bool good = true;"
    ),
    Mutant(
        "scratch too small is taken",
        FUNCTIONS,
        "if (needed > opdb_this_op.scratch_size) {",
        "if (needed > 2 * needed + opdb_this_op.scratch_size) {",
    ),
    Mutant("no rank is inferred", FUNCTIONS, "        out->rank = (int32_t)shape->rank;\n", ""),
    Mutant(
        "inferred dims in the opposite order",
        FUNCTIONS,
        "AIC_SIZES(out)[d] = (int32_t)shape->dims[d];",
        "AIC_SIZES(out)[d] = (int32_t)shape->dims[shape->rank - 1 - d];",
    ),
    Mutant(
        "inferred types are the inputs'",
        FUNCTIONS,
        "opdb_aic_slot(row, opdb_this_op.op->num_inputs, opdb_this_op.op->num_outputs, i)",
        "opdb_aic_slot(row, 0, opdb_this_op.op->num_inputs, i)",
    ),
    Mutant(
        "inferred for another output",
        FUNCTIONS,
        "const opdb_shape_value *shape = &shapes->v[i];",
        "const opdb_shape_value *shape = &shapes->v[0 * i];",
    ),
    Mutant("stale name in select", FUNCTIONS, "return opdb_this_op.aic;", "return opdb_this_op.interpreter;"),
    Mutant(
        "select has another name of the card",
        FUNCTIONS,
        'strcmp(backend, "AIC") == 0',
        'strcmp(backend, "AIC100") == 0',
    ),
    Mutant(
        "tiles along another axis",
        FUNCTIONS,
        "axes[n] = (int32_t)d;",
        "axes[n] = (int32_t)(y->rank - 1 - d);",
    ),
    Mutant(
        "alignments are forgotten", FUNCTIONS, "alignment[n++] = (int32_t)multiple;", "alignment[n++] = 1;"
    ),
    Mutant("a tile's end for its size", FUNCTIONS, "size[d] = end[d] - start[d];", "size[d] = end[d];"),
    Mutant("every tile at the start", FUNCTIONS, "        from[d] = start[d];\n", "        from[d] = 0;\n"),
    Mutant(
        "a size for a tile's end", FUNCTIONS, "(int32_t)(in_from[d] + in_size[d]);", "(int32_t)in_size[d];"
    ),
    Mutant(
        "every input's tile is the first's",
        "cloud_ai/functions_1.21.cpp",
        "opdb_aic_map_tile(&node, i, opProp",
        "opdb_aic_map_tile(&node, 0, opProp",
    ),
    Mutant(
        "tile configs are kept",
        "cloud_ai/functions_1.21.cpp",
        "    CustomOpTileConfigHelpers::destroyTileConfigsAndMergeConfigs(opProp);\n",
        "    (void)opProp;\n",
    ),
)

FAULTS = (*THREADS, *PIECES, *NODES, *OF_FUNCTIONS, *(m for m in TILES if m.file == "tiling.c"))

#: Faults that results need not show; ThreadSanitizer, AddressSanitizer and the barrier of `opdb aic check` do.
UNSEEN = (
    Mutant(
        "every thread reads the node",
        KERNEL,
        "    if (thread == 0)\n        opdb_aic_prepare",
        "    if (thread >= 0)\n        opdb_aic_prepare",
    ),
    Mutant(
        "syncThread before the node is read",
        KERNEL,
        PREPARE + SYNC,
        SYNC + PREPARE,
    ),
    Mutant(
        "a barrier too few",
        KERNEL,
        SYNC,
        "    if (threads > 1 && thread != 3)\n        ctx->syncThread(thread);\n",
    ),
    Mutant(
        "threads share a piece",
        KERNEL,
        "&shared->pieces[OPDB_AIC_DIVIDED ? thread : 0]",
        "&shared->pieces[0]",
    ),
    Mutant(
        "threads share the scratch",
        KERNEL,
        "        mine += (size_t)thread * opdb_aic_share(ctx);\n",
        "        mine += 0;\n",
    ),
    Mutant(
        "all threads compute the whole",
        KERNEL,
        "OPDB_AIC_WHOLE && thread == 0)",
        "OPDB_AIC_WHOLE && thread >= 0)",
    ),
    Mutant(
        "all threads compute all pieces",
        KERNEL,
        "for (int64_t j = thread; j < shared->plan.pieces; j += threads)",
        "for (int64_t j = 0; j < shared->plan.pieces; j++)",
    ),
    Mutant(
        "each thread has the whole scratch",
        KERNEL,
        "opdb_aic_scratch_size(ctx) / OPDB_AIC_THREADS / 16 * 16",
        "opdb_aic_scratch_size(ctx) / 16 * 16",
    ),
    Mutant(
        "more dims than there is room for",
        NODE,
        "node->dims[i][d] = AIC_SIZES(in)[d];",
        "node->dims[OPDB_AIC_TENSORS - 1 + i][d] = AIC_SIZES(in)[d];",
    ),
)
