// Marks what the shared library exports. Everything else is hidden.
#pragma once

#define FACULA_API __attribute__((visibility("default")))
