/* Records the strings with which a package's functions compare parameter names and texts. */
#pragma once

#include <string>
#include <utility>
#include <vector>

void record(const std::vector<std::string> &ours);
/* The pairs compared since then, each once: ours and theirs. Stops recording. */
std::vector<std::pair<std::string, std::string>> recorded();
