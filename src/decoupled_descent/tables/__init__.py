"""Tables: columns, features, members of a mixture, their search, and the estimators."""
