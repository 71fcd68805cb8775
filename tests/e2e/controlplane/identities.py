"""Under which names do the harness and the programs of the control plane speak to the API server? Asked by `cluster`
and `audit`.
"""

from __future__ import annotations

MASTERS = "system:masters"  # the group that may do everything

ADMIN = "admin"  # the person who tests: kubectl
HARNESS = "harness"  # our own polling and cleaning; not in the audit log
CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
KWOK = "kwok"
API_SERVER = "system:apiserver"

PROGRAMS = [CONTROLLER_MANAGER, SCHEDULER, KWOK, API_SERVER]
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
