#pragma once
/* Points at which a test can kill this process. In the program they compile to nothing; tests/e2e links a library of
 * its own in which DRDOTNET_FAULT=ROLE:N kills the process of that role (tracer, owner) at its N-th point by SIGKILL.
 */

#ifdef IMAGE_FAULT_POINTS
void fault_role(const char *role);
void fault_point(const char *what);
#else
static inline void fault_role(const char *role)
{
	(void)role;
}
static inline void fault_point(const char *what)
{
	(void)what;
}
#endif
