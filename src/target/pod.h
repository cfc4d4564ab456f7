#pragma once
/* Which pod of Kubernetes a container belongs to, by the names of the log files that the kubelet keeps on each node:
 * POD_NAMESPACE_CONTAINER-ID.log. Nobody is asked, and no file is opened. */

#define POD_LOGS "/var/log/containers"

/* "NAMESPACE/POD/CONTAINER" of the container whose id begins with these digits, by the names in `folder`; NULL when none of
 * them is its own. The caller frees. */
char *pod_of_container(const char *folder, const char *id);
