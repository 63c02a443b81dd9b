/* Owns the list of programs in C. */
#include "host_program.h"

#include <string.h>

#define PROGRAM(name) extern const struct program_ops name##_program;
#include "host_programs.h"
#undef PROGRAM

static const struct program_ops *const programs[] = {
#define PROGRAM(name) &name##_program,
#include "host_programs.h"
#undef PROGRAM
    NULL,
};

const struct program_ops *program_at(uint32_t number)
{
    return number < sizeof programs / sizeof *programs ? programs[number] : NULL;
}

const struct program_ops *program_named(const char *name)
{
    for (uint32_t i = 0; programs[i]; i++)
        if (!strcmp(programs[i]->name, name))
            return programs[i];
    return NULL;
}
