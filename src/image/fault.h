#pragma once
/* Places at which a test can make us die. In the program they are nothing; tests/e2e links a library of its own in
 * which DRDOTNET_FAULT=ROLE:N kills the process of that role (tracer, owner) at its N-th place by SIGKILL. */

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
