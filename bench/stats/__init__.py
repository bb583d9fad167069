"""Statistics of arrays. Nothing here knows of studies, proxies or networks beyond their scores and accuracies."""
