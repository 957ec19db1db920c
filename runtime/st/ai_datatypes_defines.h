/* Small definitions that applications of the embedded client API use. */
#ifndef AI_DATATYPES_DEFINES_H
#define AI_DATATYPES_DEFINES_H

#include "ai_platform.h"

#define AI_STATIC static
#define AI_CONST const
#define AI_STATIC_CONST static const
#define AI_DECLARE_STATIC static inline
#define AI_INTERFACE_TYPE

#ifndef AI_ASSERT
#define AI_ASSERT(condition) ((void)0)
#endif

#define AI_FLAG_SET(mask, flag) ((mask) |= (flag))
#define AI_FLAG_UNSET(mask, flag) ((mask) &= ~(flag))
#define AI_FLAG_IS_SET(mask, flag) ((flag) == ((mask) & (flag)))

#endif /* AI_DATATYPES_DEFINES_H */
