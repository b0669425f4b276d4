#include <stddef.h>
#include <stdint.h>
#include "neardup_abi.h"
#include "neardup_testing.h"
