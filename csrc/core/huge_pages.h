// Shared memory in pages of 2 MiB. With pages of 4 KiB, thousands of slots need more entries than a core's TLB has, and
// each request then waits for the page tables several times.
#pragma once
#include <string>

#include "contract/types.h"

namespace fastqps {

// Maps a file to read and write, at an address where its huge pages can be mapped as such. nullptr: errno says why.
void* map_for_huge_pages(int fd, u64 bytes);

// Makes huge pages of the file's pages, which must all be there, as far as the kernel can (Linux 6.1): it has no other
// effect, and needs no setting of the machine. 0, or the errno of what has failed.
int make_huge_pages(int fd, u64 bytes);

// Tries it with one page. Empty: it can be done; else why not.
std::string why_no_huge_pages();

}  // namespace fastqps
