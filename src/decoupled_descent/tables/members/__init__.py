"""Models beside the Newton fits that a mixture may have as members: forests and others."""
