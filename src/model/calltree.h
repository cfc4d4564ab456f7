#pragma once
/* Stacks merged by common frames, root first. Frames are interned names with a kind; weights are counts or ns.
 *
 * Knows no address and no event. Grows while stacks are added; memory bounded by max_nodes: further stacks end in a
 * node "[more]" at the depth where room ran out (at most one under each node), and truncated() counts them. Frame 0 is
 * the root's. The caller bounds how many different names there are. */

#include "base/map.h"

enum frame_kind { FRAME_CODE, FRAME_FRAMEWORK, FRAME_GC, FRAME_JIT, FRAME_NATIVE, FRAME_KERNEL, FRAME_OTHER };
/* "your-code", "framework" ...: as file names and words for programs. */
extern const char *const frame_kind_ids[FRAME_OTHER + 1];

struct calltree;
struct calltree *calltree_new(size_t max_nodes);
void calltree_free(struct calltree *t);
DEFINE_CLEANUP(calltree_free, struct calltree *)
uint32_t calltree_frame(struct calltree *t, const char *name, enum frame_kind kind);
/* frames[0] is the root (outermost caller). Adds weight to the path; gives the node at its end. */
uint32_t calltree_add(struct calltree *t, const uint32_t *frames, size_t n, uint64_t weight);
uint64_t calltree_truncated(const struct calltree *t);

/* Nodes: 0 is the root above all; children are a linked list, sorted heaviest first by calltree_sort(). */
struct calltree_node {
	uint32_t frame, parent, first_child, next_sibling; /* 0 = none (the root has no parent) */
	uint64_t self, total;
};
void calltree_sort(struct calltree *t);
const struct calltree_node *calltree_node(const struct calltree *t, uint32_t i);
size_t calltree_n_nodes(const struct calltree *t);
const char *calltree_frame_name(const struct calltree *t, uint32_t frame);
enum frame_kind calltree_frame_kind(const struct calltree *t, uint32_t frame);
