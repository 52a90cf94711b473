"""Speed of the training update and the estimators, against peers and against bare sgemm."""
