/* allowed.c: whether a text is like one of those that match nothing. */
#include "schemes/schemes.h"

int nd_scheme_is_like(const nd_scheme *scheme, const uint8_t *value, size_t size, const uint8_t *others, const uint64_t *ends,
    size_t count, int *like)
{
    nd_bounds bounds;
    double similarity;
    int64_t distance;
    nd_scheme_bounds(scheme, 0, &bounds);
    *like = 0;
    for (size_t i = 0; i < count && !*like; i++) {
        const uint64_t start = i == 0 ? 0 : ends[i - 1];
        ND_TRY(nd_scheme_similarity(scheme, value, size, others + start, (size_t)(ends[i] - start), &similarity, &distance));
        *like = similarity >= bounds.threshold && distance <= bounds.max_distance;
    }
    return ND_OK;
}
