/* Memory: owns what is known of the machine's, and nothing else. */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

enum { WS_LINE = 64 }; /* bytes of a line of the caches that matter; a wrong guess costs time only */

#endif
