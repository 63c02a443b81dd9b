/* Memory: owns where the state lies that packets touch.
 *
 * A big fabric's state fills hundreds of megabytes, and looking up where its small pages are takes longer than reading them.
 * So it lies together in regions as large as a large page, and the kernel is asked to back all but a process's first
 * with one. Regions are kept for what comes next and never given back. Any thread may call.
 */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include <stddef.h>

enum { WS_LINE = 64 }; /* bytes of a line of the caches that matter; a wrong guess costs time only */

/* `bytes` of zeros at the beginning of a line, of every other one where they fill an even number; NULL: no memory. */
void *ws_memory_get(size_t bytes);
/* Gives back what was got for as many bytes; NULL is nothing. */
void ws_memory_put(void *memory, size_t bytes);

#endif
