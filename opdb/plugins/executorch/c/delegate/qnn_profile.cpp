#include "qnn_profile.h"

#include <cstdio>
#include <cstring>

#include "opdb/qnn_htp.h"

namespace opdb::delegate {

enum { DEEPEST = 8 };

void QnnProfile::prepare(const Blob &blob, Memory &memory) {
    blob_ = &blob;
    of_op_ = memory.list<double>(blob.ops().n);
}

Qnn_ProfileHandle_t QnnProfile::open(QnnLibrary &library) {
    if (handle_ != nullptr)
        return handle_;
    extended_ = library.api().propertyHasCapability(QNN_PROPERTY_PROFILE_SUPPORTS_EXTENDED_EVENT) == 0;
    const Qnn_ErrorHandle_t code =
        library.api().profileCreate(library.backend(), QNN_PROFILE_LEVEL_DETAILED, &handle_);
    if (code != 0) {
        handle_ = nullptr;
        (void)library.failed(Error::Internal, "create a profile", code);
    }
    return handle_;
}

void QnnProfile::close(QnnLibrary &library) {
    if (handle_ != nullptr)
        (void)library.api().profileFree(handle_);
    handle_ = nullptr;
}

static double number(const Qnn_Scalar_t &value) {
    switch (value.dataType) {
    case QNN_DATATYPE_UINT_64:
        return (double)value.u.uint64Value;
    case QNN_DATATYPE_INT_64:
        return (double)value.u.int64Value;
    case QNN_DATATYPE_UINT_32:
        return (double)value.u.uint32Value;
    case QNN_DATATYPE_INT_32:
        return (double)value.u.int32Value;
    case QNN_DATATYPE_FLOAT_32:
        return (double)value.u.floatValue;
    case QNN_DATATYPE_FLOAT_64:
        return value.u.doubleValue;
    default:
        return 0;
    }
}

bool QnnProfile::figure(QnnLibrary &library, QnnProfile_EventId_t event, Figure &out) const {
    if (extended_) {
        QnnProfile_ExtendedEventData_t data = {};
        if (library.api().profileGetExtendedEventData(event, &data) != 0 ||
            data.version != QNN_PROFILE_DATA_VERSION_1)
            return false;
        const bool object = data.u.v1.unit == QNN_PROFILE_EVENTUNIT_OBJECT;
        out = {data.u.v1.type, data.u.v1.unit, object ? 0 : number(data.u.v1.u.value), data.u.v1.identifier};
    } else {
        QnnProfile_EventData_t data = {};
        if (library.api().profileGetEventData(event, &data) != 0)
            return false;
        out = {data.type, data.unit, (double)data.value, data.identifier};
    }
    out.name = out.name != nullptr ? out.name : "";
    return true;
}

/* CPU calls a node "_<name>", HTP "<name>:OpId_<n> (cycles)". */
static bool is_node(const char *said, const char *name) {
    const size_t length = strlen(name);
    if (said[0] == '_' && strcmp(said + 1, name) == 0)
        return true;
    return strncmp(said, name, length) == 0 && strncmp(said + length, ":OpId_", 6) == 0;
}

void QnnProfile::add(const Figure &figure) {
    if (figure.type == QNN_PROFILE_EVENTTYPE_NODE) {
        for (uint32_t i = 0; i < blob_->ops().n; ++i)
            if (is_node(figure.name, blob_->string(blob_->ops()[i].name)))
                of_op_[i] += figure.value;
    } else if (figure.type == QNN_HTP_PROFILE_EVENTTYPE_GRAPH_EXECUTE_ACCEL_TIME_CYCLE) {
        cycles_ = figure.value;
    } else if (figure.type == QNN_HTP_PROFILE_EVENTTYPE_GRAPH_EXECUTE_ACCEL_TIME_MICROSEC) {
        microseconds_ = figure.value;
        accelerator_ = true;
    } else if (figure.type == QNN_PROFILE_EVENTTYPE_EXECUTE && !accelerator_) {
        microseconds_ = figure.value;
    }
}

void QnnProfile::walk(QnnLibrary &library, const QnnProfile_EventId_t *events, uint32_t n, int depth) {
    for (uint32_t i = 0; i < n; ++i) {
        Figure found;
        if (figure(library, events[i], found))
            add(found);
        const QnnProfile_EventId_t *below = nullptr;
        uint32_t m = 0;
        if (depth < DEEPEST && library.api().profileGetSubEvents(events[i], &below, &m) == 0 &&
            below != nullptr)
            walk(library, below, m, depth + 1);
    }
}

/* Ops are laid one after the other from the start: QNN's timestamps are 0.  If QNN counts cycles, an op gets
 * a share of the accelerator's time in proportion to its cycles. */
void QnnProfile::report(QnnLibrary &library, uint64_t start, uint64_t end, const Events &events) {
    const QnnProfile_EventId_t *top = nullptr;
    uint32_t n = 0;
    const uint32_t ops = blob_->ops().n;
    memset(of_op_, 0, ops * sizeof *of_op_);
    cycles_ = microseconds_ = 0;
    accelerator_ = false;
    if (library.api().profileGetEvents(handle_, &top, &n) == 0 && top != nullptr)
        walk(library, top, n, 0);
    const uint64_t whole = microseconds_ > 0 ? ticks_of(microseconds_ * 1000) : end - start;
    uint64_t at = start;
    for (uint32_t i = 0; i < ops; ++i) {
        char said[64];
        const uint64_t took =
            cycles_ > 0 ? (uint64_t)((double)whole * of_op_[i] / cycles_) : ticks_of(of_op_[i] * 1000);
        (void)snprintf(said, sizeof said, "{\"%s\": %.0f}", cycles_ > 0 ? "cycles" : "us", of_op_[i]);
        events.time(i, at, at + took, said);
        at += took;
    }
}

} // namespace opdb::delegate
