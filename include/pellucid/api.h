// Visibility of the library's symbols. Everything is hidden unless marked PELLUCID_API.
#pragma once

#define PELLUCID_API __attribute__((visibility("default")))
