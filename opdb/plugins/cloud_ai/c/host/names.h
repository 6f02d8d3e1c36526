/* Which strings a package's functions compare names of parameters, and texts, with. */
#pragma once

#include <string>
#include <utility>
#include <vector>

void record(const std::vector<std::string> &ours);
/* What was compared since, each pair once: ours and theirs.  Recording stops. */
std::vector<std::pair<std::string, std::string>> recorded();
