// Which Facula this is, which GPUs it found, and what it uses: for programs that ask, and for people who look for a fault.
#pragma once

#include <facula/core/export.h>

#include <optional>
#include <string>

namespace facula {

namespace version {

// Of the library that runs: "0.1.0".
FACULA_API std::string library();
// Of the platform whose GPUs are used, as its driver tells: "13.0". Nothing where there is no GPU, or the other maker's.
FACULA_API std::optional<std::string> cuda();
FACULA_API std::optional<std::string> hip();

}  // namespace version

// Version, compiler, instructions and threads of the processor, GPUs, and what was looked for to use them (what
// cuda::describe_search tells), a line each, for people. `python -m facula doctor` prints it.
FACULA_API std::string config();

}  // namespace facula
