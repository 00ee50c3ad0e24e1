// How wide text is on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace facula::report {

// The beginning of a text that needs at most `columns`; whole characters with their marks.
std::string cut_to_width(std::string_view text, int columns);
// The text with spaces behind it, or cut, so that it needs exactly `columns`.
std::string fit_to_width(std::string_view text, int columns);
// Nothing that moves the cursor or ends the line.
std::string printable(std::string_view text);

}  // namespace facula::report
