// Layout and memory format: how the elements of a tensor are ordered in its storage.
#pragma once

#include <facula/core/array_ref.h>
#include <facula/core/export.h>

#include <cstdint>
#include <iosfwd>
#include <vector>

namespace facula {

enum class Layout : int8_t { Strided };
inline constexpr Layout kStrided = Layout::Strided;

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

FACULA_API std::ostream& operator<<(std::ostream& out, Layout layout);
FACULA_API std::ostream& operator<<(std::ostream& out, MemoryFormat format);
FACULA_API std::string to_text(MemoryFormat format);

}  // namespace facula
