"""Faults in the C between a QNN backend and a kernel."""

from __future__ import annotations

from fault import Mutant

VIEWS = (
    Mutant(
        "offset with the other sign",
        "config_view.c",
        "*offset = in->u.scaleOffsetEncoding.offset;",
        "*offset = -in->u.scaleOffsetEncoding.offset;",
    ),
    Mutant(
        "scale of another encoding's place",
        "config_view.c",
        "*scale = in->u.scaleOffsetEncoding.scale;",
        "*scale = 1.0f;",
    ),
    Mutant(
        "dims in the opposite order",
        "config_view.c",
        "view->dims[i][d] = in->dimensions[d];",
        "view->dims[i][d] = in->dimensions[in->rank - 1 - d];",
    ),
    Mutant(
        "an omitted tensor is taken as given",
        "config_view.c",
        "if (in->type == QNN_TENSOR_TYPE_NULL)",
        "if (in->type == QNN_TENSOR_TYPE_NULL && i > 9)",
    ),
    Mutant(
        "outputs where inputs are",
        "config_view.c",
        "read_tensor(view, in->numOfInputs + i, &in->outputTensors[i])",
        "read_tensor(view, i, &in->outputTensors[i])",
    ),
    Mutant(
        "tensors without an encoding have one",
        "config_view.c",
        "if (in->encodingDefinition != QNN_DEFINITION_DEFINED)",
        "if (in->encodingDefinition == QNN_DEFINITION_DEFINED)",
    ),
    Mutant(
        "the slots of outputs begin with the inputs'",
        "op_view.c",
        "outputs, view->slots + inputs, params,",
        "outputs, view->slots, params,",
    ),
)

LISTS = (
    Mutant(
        "every value of a real list is the first",
        "config_view.c",
        "(double)((const float *)data)[k];",
        "(double)((const float *)data)[0];",
    ),
    Mutant(
        "a list of reals one late",
        "config_view.c",
        "view->reals[from + k] = (double)",
        "view->reals[from + k + (k + 1 < count)] = (double)",
    ),
    Mutant(
        "u32 read as u16",
        "config_view.c",
        "*out = ((const uint32_t *)data)[i];",
        "*out = ((const uint16_t *)data)[i];",
    ),
    Mutant(
        "i32 without its sign",
        "config_view.c",
        "*out = ((const int32_t *)data)[i];",
        "*out = ((const int32_t *)data)[i] & 0x7fffffff;",
    ),
    Mutant(
        "the rows of a table are its columns",
        "config_view.c",
        "view->shapes[i][d] = dims[d];",
        "view->shapes[i][d] = 1 + 0 * dims[d];",
    ),
    Mutant(
        "a list has one value less",
        "config_view.c",
        "out->count = (int64_t)count;",
        "out->count = (int64_t)count - 1;",
    ),
)

SCALARS = (
    Mutant("parameters over each other", "config_view.c", "        from += values_of(&in->params[i]);\n", ""),
    Mutant(
        "a scalar of f32 is 0", "config_view.c", "out->real = (double)in->u.floatValue;", "out->real = 0;"
    ),
)

HTP = (
    Mutant("+128 forgotten", "htp_run.c", "[i] ^ 0x80;", "[i] ^ 0;"),
    Mutant("+32768 forgotten", "htp_run.c", "[i] ^ 0x8000;", "[i] ^ 0;"),
    Mutant("+64 for +128", "htp_run.c", "[i] ^ 0x80;", "[i] ^ 0x40;"),
    Mutant(
        "sq8 is not moved",
        "htp_run.c",
        "return dtype == OPDB_I8 || dtype == OPDB_SQ8;",
        "return dtype == OPDB_I8;",
    ),
    Mutant(
        "i8 is not moved",
        "htp_run.c",
        "return dtype == OPDB_I8 || dtype == OPDB_SQ8;",
        "return dtype == OPDB_SQ8;",
    ),
    Mutant(
        "sq16 is not moved",
        "htp_run.c",
        "|| dtype == OPDB_I16 || dtype == OPDB_SQ16;",
        "|| dtype == OPDB_I16;",
    ),
    Mutant(
        "i16 is not moved",
        "htp_run.c",
        "|| dtype == OPDB_I16 || dtype == OPDB_SQ16;",
        "|| dtype == OPDB_SQ16;",
    ),
    Mutant(
        "inputs are moved, outputs are not",
        "htp_run.c",
        "            if (is_shifted(t->dtype))\n                shift(t, t->data, t->data);\n",
        "            (void)t;\n",
    ),
    Mutant(
        "outputs are moved, inputs are not",
        "htp_run.c",
        "if (!read || !is_shifted(t->dtype))",
        "if (read || !is_shifted(t->dtype))",
    ),
    Mutant(
        "half of a tensor is moved",
        "htp_run.c",
        "const size_t n = elements_of(t);",
        "const size_t n = elements_of(t) / 2;",
    ),
    Mutant("dims from the front", "htp_run.c", "shape.dims[shape.rank - t->rank + d]", "shape.dims[d]"),
    Mutant(
        "every input is the first",
        "htp_run.c",
        "take(view, i, inputs[given], true)",
        "take(view, i, inputs[0], true)",
    ),
    Mutant(
        "an omitted input takes a tensor",
        "htp_run.c",
        "        if (view->slots[i] == NULL)\n            continue;\n",
        "",
    ),
    Mutant(
        "every output is the first",
        "htp_run.c",
        "take(view, before + i, outputs[i], false)",
        "take(view, before + i, outputs[0], false)",
    ),
    Mutant(
        "outputs in the views of inputs",
        "htp_run.c",
        "take(view, before + i, outputs[i], false)",
        "take(view, i, outputs[i], false)",
    ),
    Mutant(
        "no scratch",
        "htp_run.c",
        "view->op.scratch_size = op->scratch(&view->op);",
        "view->op.scratch_size = 0;",
    ),
    Mutant(
        "scratch too small",
        "htp_run.c",
        "malloc(view->op.scratch_size) : NULL;",
        "malloc(view->op.scratch_size / 4096) : NULL;",
    ),
    Mutant(
        "a failure of the kernel is not told",
        "htp_run.c",
        "return status == OPDB_OK ? OPDB_QHPI_OK : OPDB_QHPI_FATAL;",
        "return OPDB_QHPI_OK;",
    ),
    Mutant(
        "the description is the first input",
        "htp_run.c",
        "*words = inputs[num_inputs - 1];",
        "*words = inputs[0];",
    ),
)

TILES = (
    Mutant(
        "wrong tile origin of inputs",
        "htp_tiles.c",
        "const opdb_qhpi_shape start = padded(rank, input->rank, in_from, 0);",
        "const opdb_qhpi_shape start = padded(rank, input->rank, out_from, 0);",
    ),
    Mutant(
        "each tile reads from the start",
        "htp_tiles.c",
        "padded(rank, input->rank, in_from, 0);",
        "padded(rank, 0, in_from, 0);",
    ),
    Mutant(
        "tiles begin where they end",
        "htp_tiles.c",
        "own_dims(from, output->rank, out_from);",
        "own_dims(size, output->rank, out_from);",
    ),
    Mutant(
        "tiles are as long as they are far",
        "htp_tiles.c",
        "own_dims(size, output->rank, out_size);",
        "own_dims(from, output->rank, out_size);",
    ),
    Mutant(
        "a tile gets the whole input",
        "htp_tiles.c",
        "all ? whole : qhpi_op_slice(whole, &start, &extent);",
        "whole;",
    ),
    Mutant("a tile has the shape of the whole", "htp_tiles.c", "        output.shape = *size;\n", ""),
    Mutant(
        "the description is not handed on",
        "htp_tiles.c",
        "inputs[given] = qhpi_op_input(node, given);",
        "inputs[given] = qhpi_op_input(node, 0);",
    ),
    Mutant("sizes from the front", "htp_tiles.c", "(uint32_t)size[d + own - rank];", "(uint32_t)size[d];"),
    Mutant(
        "the halo is forgotten",
        "tiling.c",
        "(from[axis] + size[axis] - 1) + part.after + 1;",
        "(from[axis] + size[axis] - 1) + 1;",
    ),
    Mutant("the halo is one row short", "tiling.c", "+ part.after + 1;", "+ part.after;"),
    Mutant(
        "the scale of the origin is forgotten",
        "tiling.c",
        "part.scale * from[axis] - part.before;",
        "from[axis] - part.before;",
    ),
    Mutant(
        "the scale of the end is forgotten",
        "tiling.c",
        "part.scale * (from[axis] + size[axis] - 1)",
        "(from[axis] + size[axis] - 1)",
    ),
    Mutant(
        "parts of another axis",
        "tiling.c",
        "const uint32_t axis = output->rank - 1 - part.of;",
        "const uint32_t axis = part.of;",
    ),
    Mutant(
        "input axes from the front",
        "tiling.c",
        "const uint32_t last = input->rank - 1 - d;",
        "const uint32_t last = d;",
    ),
    Mutant("an input's end for its size", "tiling.c", "input_size[d] = end - first;", "input_size[d] = end;"),
    Mutant(
        "what is whole is parted",
        "tiling.c",
        "if (part.whole || part.of >= output->rank)",
        "if (part.of >= output->rank)",
    ),
)

NODES = (
    Mutant(
        "zero with the other sign",
        "htp_nodes.c",
        "const int64_t zero = -opdb_offset(t);",
        "const int64_t zero = opdb_offset(t);",
    ),
    Mutant(
        "zero of sq8 without +128",
        "htp_nodes.c",
        "seen->quant.zero == zero + 128",
        "seen->quant.zero == zero",
    ),
    Mutant(
        "zero of sq16 without +32768",
        "htp_nodes.c",
        "seen->quant.zero == zero + 32768",
        "seen->quant.zero == zero",
    ),
    Mutant(
        "other reals are the same node",
        "htp_nodes.c",
        "if (((const float *)data)[i] != (float)",
        "if (0 && ((const float *)data)[i] != (float)",
    ),
    Mutant(
        "other integers are the same node",
        "htp_nodes.c",
        "if (((const int32_t *)data)[i] != (int32_t)p->ints[i])",
        "if (0 && ((const int32_t *)data)[i] != (int32_t)p->ints[i])",
    ),
    Mutant(
        "other flags are the same node",
        "htp_nodes.c",
        "if (p->rank == 0 && (*(const uint8_t *)data != 0) != (p->ints[0] != 0))",
        "if (0 && p->rank == 0 && (*(const uint8_t *)data != 0) != (p->ints[0] != 0))",
    ),
    Mutant(
        "only the first value is compared",
        "htp_nodes.c",
        "data != NULL && i < p->count; i++)",
        "data != NULL && i < 1; i++)",
    ),
    Mutant("a scalar is taken", "htp_nodes.c", "if (t->rank == 0)", "if (t->rank == 99)"),
    Mutant("six dimensions are taken", "htp_nodes.c", "if (t->rank > 5)", "if (t->rank > 6)"),
    Mutant(
        "stale name: ops under another separator",
        "htp_package.c",
        '"%s::%s", opdb_this_package.info.packageName, op->name);',
        '"%s:%s", opdb_this_package.info.packageName, op->name);',
    ),
    Mutant("nodes are not replaced", "htp_package.c", "    info->early = opdb_htp_early;\n", ""),
    Mutant(
        "inputs of five dimensions as of four",
        "htp_package.c",
        "inputs[i] = five_inputs >> i & 1 ? flat5 : flat4;",
        "inputs[i] = flat4;",
    ),
    Mutant(
        "outputs of five dimensions as of four",
        "htp_package.c",
        "outputs[i] = five_outputs >> i & 1 ? flat5 : flat4;",
        "outputs[i] = flat4;",
    ),
    Mutant("tiles are not made", "htp_package.c", "        info->tile = opdb_htp_tile;\n", ""),
    Mutant(
        "one number of inputs only",
        "htp_package.c",
        "for (uint32_t n = op->min_inputs; n <= op->max_inputs; n++) {",
        "for (uint32_t n = op->max_inputs; n <= op->max_inputs; n++) {",
    ),
)

DESCRIPTIONS = (
    Mutant(
        "offsets are not written",
        "htp_description.c",
        "put_bytes(w, t->quant->offsets, (size_t)n * sizeof *t->quant->offsets);",
        "put_bytes(w, t->quant->scales, (size_t)n * sizeof *t->quant->offsets);",
    ),
    Mutant("parameters under each other's names", "htp_description.c", "put(w, (int64_t)at);", "put(w, 0);"),
    Mutant(
        "the real of a scalar is lost",
        "htp_description.c",
        "put_bytes(w, &p->real, sizeof p->real);",
        "put_bytes(w, &(double){0}, sizeof p->real);",
    ),
    Mutant(
        "values over each other",
        "htp_description.c",
        "    *from += (size_t)(out->count < 0 ? 0 : out->count);\n",
        "    (void)from;\n",
    ),
    Mutant(
        "reals read as integers",
        "htp_description.c",
        "const bool real_list = out->rank > 0 && out->dtype == OPDB_F32;",
        "const bool real_list = false;",
    ),
)

CPU = (
    Mutant(
        "stored integers under their own type",
        "cpu_package.c",
        "return in->dataType == OPDB_U8 && quantized ? OPDB_UQ8 : (enum opdb_dtype)in->dataType;",
        "return (void)quantized, (enum opdb_dtype)in->dataType;",
    ),
    Mutant(
        "dims in the opposite order",
        "cpu_package.c",
        "view->dims[i][d] = in->currentDimensions[d];",
        "view->dims[i][d] = in->currentDimensions[in->rank - 1 - d];",
    ),
    Mutant(
        "outputs where inputs are",
        "cpu_package.c",
        "view_node_tensor(state, in->numOfInputs + i, in->outputs[i])",
        "view_node_tensor(state, i, in->outputs[i])",
    ),
    Mutant(
        "an omitted input is there",
        "cpu_package.c",
        "in->rank == 0 && in->data == NULL ? NULL : out;",
        "out;",
    ),
    Mutant(
        "an integer scalar is lost",
        "cpu_package.c",
        "view->ints[from] = (int64_t)in->u.scalarParam;",
        "view->ints[from] = 0;",
    ),
    Mutant("a real scalar is lost", "cpu_package.c", "out->real = in->u.scalarParam;", "out->real = 0;"),
    Mutant(
        "parameters over each other", "cpu_package.c", "        from += node_values_of(in->params[i]);\n", ""
    ),
    Mutant("data of before", "cpu_package.c", "    out->data = in->data;\n", ""),
    Mutant(
        "no scratch",
        "cpu_package.c",
        "op->scratch_size = node->scratch != NULL ? size : 0;",
        "op->scratch_size = 0;",
    ),
    Mutant(
        "scratch too small",
        "cpu_package.c",
        "node->scratch = malloc(size);",
        "node->scratch = malloc(size / 4096);",
    ),
    Mutant(
        "a failure of the kernel is not told",
        "cpu_package.c",
        "return status == OPDB_INVALID ? REFUSED : GENERAL;",
        "return SUCCESS;",
    ),
    Mutant(
        "stale name of an op",
        "op_package.c",
        "if (strcmp(opdb_this_package.ops[i].name, type) == 0)",
        "if (strcmp(opdb_this_package.ops[i].name + 1, type) == 0)",
    ),
)
