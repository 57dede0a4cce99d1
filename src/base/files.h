// Questions about files whose names or contents come from outside: is it a plain name, are two
// paths one file, is it a regular file that can be read without waiting.
#pragma once

#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid::io {

/// Whether `name` can only be a file in the folder it is put after: not empty, no '/', no NUL,
/// neither "." nor "..", and no longer than a file system takes.
PELLUCID_API bool is_plain_name(std::string_view name);

/// The folder that holds `path`: "." for a bare name.
PELLUCID_API std::string folder_of(const std::string& path);

/// Whether both paths lead to one file, through links: by device and inode where both exist,
/// otherwise by the place they would have.
PELLUCID_API bool same_file(const std::string& a, const std::string& b);

/// Whether the path is a regular file itself, not through a link.
PELLUCID_API bool is_regular(const std::string& path);

enum class Links { Follow, Refuse };

/// Opens a regular file; -1 and errno otherwise (ELOOP for a refused link, EINVAL for what is no
/// regular file). Never waits for the other end of a pipe. `mode` is for O_CREAT.
PELLUCID_API int open_regular(const std::string& path, int flags, Links links,
                              unsigned mode = 0666);

/// Says what a path is where open_regular failed with `error`: "is a link", "is no regular file",
/// or the system's message.
PELLUCID_API std::string why_not_regular(int error);

}  // namespace pellucid::io
