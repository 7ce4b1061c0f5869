"""The application: tables, the command ``decoupled``, its report, and the figures of the paper.

Nothing outside of this package imports it, except the public names of ``decoupled_descent``.
"""
