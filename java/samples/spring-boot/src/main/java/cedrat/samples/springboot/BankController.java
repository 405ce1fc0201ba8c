package cedrat.samples.springboot;

import cedrat.persist.Store;
import cedrat.persist.Transaction;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.http.HttpStatus;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.ResponseStatus;
import org.springframework.web.bind.annotation.RestController;

/// The bank as a web service.
///
/// **Threads:** any; each request has a virtual thread of its own.
@RestController
class BankController {
    private static final Logger LOG = LoggerFactory.getLogger(BankController.class);

    private final Bank bank;
    private final ObjectMapper json;

    BankController(Store store, ObjectMapper json) {
        bank = store.root("bank", Bank.class, Bank::ofFour);
        this.json = json;
    }

    /// Carries out a transfer, unless it was carried out before. What it has changed is durable when it returns.
    @PostMapping("/transfers")
    void transfer(@RequestBody Transfer transfer) throws JsonProcessingException {
        Transaction.run(() -> {
            if (bank.journal.containsKey(transfer.id())) {
                return;
            }
            bank.account(transfer.from()).cents -= transfer.cents();
            bank.account(transfer.to()).cents += transfer.cents();
            bank.journal.put(transfer.id(), json.writeValueAsString(transfer));
            if (bank.account(transfer.from()).cents < 0) {
                throw new IllegalArgumentException(transfer.from() + " has not " + transfer.cents() + " cents");
            }
            LOG.debug("transfer {} carried out", transfer.id());
        });
    }

    /// The balance of each account, in cents.
    @GetMapping("/accounts")
    Map<String, Long> accounts() {
        return Transaction.call(() -> {
            Map<String, Long> cents = new TreeMap<>();
            bank.accounts.values().forEach(account -> cents.put(account.owner, account.cents));
            return cents;
        });
    }

    /// The transfers that were carried out, in their order.
    @GetMapping("/transfers")
    List<Transfer> transfers() throws JsonProcessingException {
        return Transaction.call(() -> {
            String texts = "[" + String.join(",", bank.journal.values()) + "]";
            return List.of(json.readValue(texts, Transfer[].class));
        });
    }

    @ExceptionHandler
    @ResponseStatus(HttpStatus.BAD_REQUEST)
    String refused(IllegalArgumentException refusal) {
        return refusal.getMessage();
    }
}
