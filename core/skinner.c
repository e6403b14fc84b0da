#include "core/skinner.h"

dfm_status dfm_skinner_open(const dfm_skinner_backend *backend, const dfm_skinner_options *options,
                            dfm_skinner **skinner, dfm_error *error) {
    *skinner = NULL;
    if (options->worker_count == 0)
        return dfm_fail(error, DFM_ERROR_ARGUMENT, "skinner", -1, -1, "no worker");
    return backend->open(options, skinner, error);
}

dfm_status dfm_skinner_bind(dfm_skinner *skinner, const dfm_skin_bind *data,
                            dfm_skin_binding **binding, dfm_error *error) {
    *binding = NULL;
    return skinner->backend->bind(skinner, data, binding, error);
}

static dfm_status check_output(const dfm_skin_output *output, size_t element_bytes,
                               const char *what, int64_t job, dfm_error *error) {
    if (output->data && output->stride_bytes < element_bytes)
        return dfm_fail(error, DFM_ERROR_ARGUMENT, "job", job, -1,
                        "the %s stride is %zu bytes, an element takes %zu", what,
                        output->stride_bytes, element_bytes);
    return DFM_OK;
}

static dfm_status check_job(const dfm_skin_bind *data, const dfm_skin_job *job, int64_t index,
                            dfm_error *error) {
    const char *missing = NULL;
    if (data->bone_count > 0 && !job->palette)
        missing = "palette";
    else if ((data->has_sdef || data->has_qdef) && !job->rotations)
        missing = "rotations";
    else if (data->has_qdef && !job->duals)
        missing = "duals";
    else if (job->deltas.touched_count > 0 &&
             (!job->deltas.deltas || !job->deltas.stamps || !job->deltas.touched))
        missing = "deltas";
    if (missing)
        return dfm_fail(error, DFM_ERROR_ARGUMENT, "job", index, -1, "no %s", missing);
    if (job->component != DFM_COMPONENT_F32 && job->component != DFM_COMPONENT_F16)
        return dfm_fail(error, DFM_ERROR_ARGUMENT, "job", index, -1, "no such component type");
    size_t element_bytes = job->component == DFM_COMPONENT_F32 ? 12 : 6;
    dfm_status status = check_output(&job->position, element_bytes, "position", index, error);
    return status == DFM_OK ? check_output(&job->normal, element_bytes, "normal", index, error)
                            : status;
}

dfm_status dfm_skinner_run(dfm_skinner *skinner, dfm_skin_binding *binding, uint32_t worker,
                           const dfm_skin_job *jobs, size_t job_count, dfm_error *error) {
    if (worker >= skinner->worker_count)
        return dfm_fail(error, DFM_ERROR_ARGUMENT, "job", -1, -1, "worker %u of %u", worker,
                        skinner->worker_count);
    for (size_t i = 0; i < job_count; i++) {
        dfm_status status = check_job(binding->data, &jobs[i], (int64_t)i, error);
        if (status != DFM_OK)
            return status;
    }
    if (job_count == 0 || binding->data->vertex_count == 0)
        return DFM_OK;
    return skinner->backend->run(skinner, binding, worker, jobs, job_count, error);
}

void dfm_skinner_unbind(dfm_skinner *skinner, dfm_skin_binding *binding) {
    if (binding)
        skinner->backend->unbind(skinner, binding);
}

void dfm_skinner_close(dfm_skinner *skinner) {
    if (skinner)
        skinner->backend->close(skinner);
}
