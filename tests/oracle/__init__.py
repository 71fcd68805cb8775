"""Feasibility against the truth: the same cases put to growth and to the kube-scheduler's own filter plugins (`make
oracle`).
"""
