// A Sandmill entry script in C++: the most frequent word of each file.
#include "sandmill.h"
#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

SANDMILL_TAKES_FILES

const char *sandmill_run(const sandmill_mini_batch *batch, sandmill_results *results) {
    for (size_t index = 0; index < batch->count; index++) {
        char *bytes;
        size_t length;
        if (const char *error = sandmill_read(batch->files[index], &bytes, &length)) {
            sandmill_item_failed(results, "%s", error);
            continue;
        }
        std::istringstream text(std::string(bytes, length));
        free(bytes);
        std::map<std::string, int> counts;
        for (std::string word; text >> word;) counts[word]++;
        auto most = std::max_element(counts.begin(), counts.end(), [](auto &a, auto &b) { return a.second < b.second; });
        if (most == counts.end()) sandmill_row(results, "%s:", sandmill_file_name(batch->files[index]));
        else sandmill_row(results, "%s: %s %d", sandmill_file_name(batch->files[index]), most->first.c_str(), most->second);
    }
    return nullptr;
}
