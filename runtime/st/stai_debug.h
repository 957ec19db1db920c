/* Debugging aids of the stai interface: nothing, unless the build defines them. */
#ifndef STAI_DEBUG_H
#define STAI_DEBUG_H

#ifndef STAI_ASSERT
#define STAI_ASSERT(condition) ((void)0)
#endif
#ifndef STAI_PRINT
#define STAI_PRINT(...) ((void)0)
#endif

#endif /* STAI_DEBUG_H */
