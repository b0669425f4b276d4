/* query_bounds.c: what an index of a scheme can be asked, within which bounds, and which query answers. */
#include <float.h>

#include "schemes/schemes.h"

#define CONTAINMENT_DEFAULT 0.8 /* not the index's own threshold, which is for another measure */

int nd_scheme_is_hamming(const nd_scheme *scheme)
{
    return scheme->kind == ND_SCHEME_SIMHASH || scheme->kind == ND_SCHEME_BITSAMPLING || scheme->kind == ND_SCHEME_BINARYCODE;
}

double nd_scheme_slope(const nd_scheme *scheme)
{
    /* One-bit samples of sets with Jaccard J differ in (1 - J) / 2 of their bits: the slope of 2 makes it an estimate of J. */
    return scheme->kind == ND_SCHEME_BITSAMPLING ? 2.0 : 1.0;
}

double nd_scheme_threshold(const nd_scheme *scheme)
{
    return scheme->kind == ND_SCHEME_PASSAGES && scheme->threshold == 0 ? DBL_MIN : scheme->threshold;
}

static const char *containment_query(const nd_scheme *scheme)
{
    if (scheme->kind == ND_SCHEME_BOTTOMK)
        return scheme->containment ? "prefix_containment" : NULL;
    if (scheme->kind == ND_SCHEME_PASSAGES)
        return "passages_containment";
    if (scheme->kind != ND_SCHEME_MINHASH || scheme->evidence == ND_EVIDENCE_NONE)
        return NULL;
    return "scan_packed_containment";
}

const char *nd_scheme_query(const nd_scheme *scheme, int containment)
{
    if (containment)
        return containment_query(scheme);
    if (scheme->plan == ND_PLAN_BANDS)
        return scheme->evidence == ND_EVIDENCE_PACKED ? "bands_packed" : "bands";
    if (scheme->plan == ND_PLAN_WINNOW)
        return "passages";
    if (scheme->plan == ND_PLAN_PREFIX)
        return scheme->measure == ND_MEASURE_ESTIMATE ? "prefix_estimate" : "prefix";
    return "buckets";
}

void nd_scheme_bounds(const nd_scheme *scheme, int containment, nd_bounds *out)
{
    *out = (nd_bounds){.threshold = nd_scheme_threshold(scheme), .lowest = nd_scheme_threshold(scheme), .max_distance = -1};
    if (containment) {
        out->threshold = CONTAINMENT_DEFAULT;
        out->lowest = 0;
    } else if (nd_scheme_is_hamming(scheme)) {
        double own = 1.0 - nd_scheme_slope(scheme) * (double)scheme->max_distance / (double)scheme->bits;
        out->threshold = -1.0;
        out->lowest = own > 0.0 ? own : 0.0;
        out->max_distance = scheme->max_distance;
    }
}
