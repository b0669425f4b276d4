/* verifier.h: whether two values match by the rule of a scheme, and by how much. */
#ifndef NEARDUP_VERIFIER_H
#define NEARDUP_VERIFIER_H

#include "schemes/schemes.h"

typedef ND_LIST(uint64_t) nd_numbers;

typedef struct nd_verifier {
    nd_scheme rule; /* compares the bytes that nd_unpack makes of values */
    /* Passages: the text that many are compared with is indexed once. */
    nd_passages *index;
    const uint8_t *indexed; /* the bytes of that text, and its id */
    int64_t indexed_id;
    int64_t last; /* the `own` that was compared last */
} nd_verifier;

typedef struct nd_compared {
    int64_t id;
    const uint8_t *bytes; /* size 0: the fingerprint was deleted, and matches nothing */
    size_t size;
} nd_compared;

typedef struct nd_verdict {
    double similarity;
    int64_t distance; /* -1 if the rule has none */
    int matches;
} nd_verdict;

void nd_verifier_begin(nd_verifier *verifier, const nd_scheme *scheme);
void nd_verifier_release(nd_verifier *verifier);
/* Whether two sets are compared, each as a whole. */
int nd_compares_sets(const nd_scheme *rule);
/* bound: sets less similar do not match; the threshold of the rule, or more. */
int nd_verify(nd_verifier *verifier, nd_compared own, nd_compared other, double bound, nd_verdict *out);
/* Makes of a stored value what is compared: the hashes of a packed one, else the value itself. */
int nd_unpack(const nd_scheme *scheme, nd_numbers *numbers, const uint8_t **bytes, size_t *size);
/* The same of one that was not checked yet; ND_ERROR_DAMAGED if the scheme cannot have made it. */
int nd_read_value(const nd_scheme *scheme, nd_numbers *numbers, const uint8_t **bytes, size_t *size);

#endif
